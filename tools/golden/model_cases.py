"""What tools/golden/models.py makes checkpoints of: names, and options of transformers and the fixture."""

BASE = dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0,
            tie_word_embeddings=False)


def rope(kind, theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


LONG_FACTORS = dict(short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                    long_factor=[1.0, 1.5, 2.0, 3.0, 4.5, 6.0, 8.0, 12.0])

# Matrices of several blocks of 128 by 128, the last ones ragged; Q is whole blocks, K, V and the
# gate are not.
FP8 = dict(hidden_size=160, intermediate_size=288, head_dim=32, num_hidden_layers=2)

BF16 = dict(dtype="bfloat16")
# What all models have; others than those of Llama's form know none of the other keys. Small, since
# what is new in them shows in few numbers.
BARE = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SMALL = dict(dtype="bfloat16", tokens=24)
SMALL_BARE = dict(SMALL, base=BARE)
NARROW = dict(hidden_size=32, intermediate_size=48, num_attention_heads=2, num_key_value_heads=1)
HALF = rope("default", partial_rotary_factor=0.5)

# name -> (configuration class, its options, options of the fixture). Options of the fixture:
#   decode_from: tokens of the first prefill of the decode check (default 1). LongRoPE picks its
#     factors by the length of the call, so the check stays on one side of the original context.
#   decode: False where transformers itself has no consistent decode (dynamic NTK, Bamba, which
#     counts positions by its first layer).
#   attention: where "eager" is wrong in transformers: it adds Falcon's ALiBi twice.
#   tokens: prompt length; dtype: of the stored matrices; shard: bytes a file; full_bytes: tokenizer
CASES = {
    "llama": ("Llama", dict(vocab_size=320), dict(full_bytes=True)),
    "llama_tied": ("Llama", dict(tie_word_embeddings=True, num_key_value_heads=1), {}),
    "llama_mha": ("Llama", dict(num_key_value_heads=4, rms_norm_eps=1e-3), dict(dtype="float16")),
    "llama_bias": ("Llama", dict(attention_bias=True, mlp_bias=True, head_dim=32),
                   dict(dtype="bfloat16")),
    "llama_f8": ("Llama", dict(), dict(dtype="float8_e4m3fn")),
    "llama_linear": ("Llama", dict(rope_parameters=rope("linear", factor=4.0)), {}),
    "llama_dynamic": ("Llama", dict(rope_parameters=rope("dynamic", factor=2.0),
                                    max_position_embeddings=24), dict(decode=False)),
    "llama_dynamic_short": ("Llama", dict(rope_parameters=rope("dynamic", factor=2.0),
                                          max_position_embeddings=24), dict(tokens=24)),
    "llama_yarn": ("Llama", dict(rope_parameters=rope(
        "yarn", factor=8.0, original_max_position_embeddings=32)), {}),
    "llama_yarn_options": ("Llama", dict(rope_parameters=rope(
        "yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=16.0, beta_slow=2.0,
        mscale=1.2, mscale_all_dim=0.8, truncate=False)), {}),
    "llama_llama3": ("Llama", dict(head_dim=32, rope_parameters=rope(
        "llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), {}),
    "mistral": ("Mistral", dict(sliding_window=16), {}),
    "qwen2": ("Qwen2", dict(rope_parameters=rope("default", 1000000.0)), {}),
    "qwen2_window": ("Qwen2", dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=16,
                                   max_window_layers=1), {}),
    "qwen3": ("Qwen3", dict(head_dim=32, rope_parameters=rope("default", 1000000.0)),
              dict(shard=150000)),
    "gemma2": ("Gemma2", dict(num_hidden_layers=4, intermediate_size=64, head_dim=16,
                              sliding_window=16, query_pre_attn_scalar=24,
                              attn_logit_softcapping=4.0, final_logit_softcapping=6.0,
                              tie_word_embeddings=True), {}),
    "gemma3": ("Gemma3Text", dict(
        num_hidden_layers=6, num_key_value_heads=1, intermediate_size=64, head_dim=16,
        rms_norm_eps=1e-3,
        sliding_window=16, query_pre_attn_scalar=24, tie_word_embeddings=True,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        rope_parameters={"sliding_attention": rope("default", 100.0),
                         "full_attention": rope("linear", 10000.0, factor=8.0)}), {}),
    "phi3": ("Phi3", dict(), {}),
    "phi3_window": ("Phi3", dict(sliding_window=16, rope_parameters=rope(
        "default", partial_rotary_factor=0.5)), {}),
    "phi3_long": ("Phi3", dict(original_max_position_embeddings=32,
                               rope_parameters=rope("longrope", **LONG_FACTORS)),
                  dict(decode_from=40)),
    "phi3_short": ("Phi3", dict(original_max_position_embeddings=32,
                                rope_parameters=rope("longrope", **LONG_FACTORS)),
                   dict(tokens=32)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=4, intermediate_size=64, no_rope_layer_interval=2,
                                tie_word_embeddings=True), {}),
    "qwen3_next": ("Qwen3Next", dict(
        num_hidden_layers=4, head_dim=32, num_experts=0, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=24,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        rope_parameters=rope("default", 1000000.0, partial_rotary_factor=0.25)), {}),
    "qwen3_next_mlp": ("Qwen3Next", dict(
        num_hidden_layers=2, num_experts=4, mlp_only_layers=[0, 1], linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
        linear_conv_kernel_dim=3, head_dim=16, rms_norm_eps=1e-3, tie_word_embeddings=True,
        layer_types=["linear_attention", "full_attention"],
        rope_parameters=rope("default", 10000.0, partial_rotary_factor=0.5)),
        dict(dtype="bfloat16")),
    "stablelm": ("StableLm", dict(layer_norm_eps=1e-3, use_qkv_bias=True, rope_parameters=rope(
        "default", partial_rotary_factor=0.25)), {}),
    "stablelm_parallel": ("StableLm", dict(
        num_hidden_layers=3, use_parallel_residual=True, tie_word_embeddings=True,
        rope_parameters=rope("default", 1000000.0, partial_rotary_factor=0.5)),
        dict(dtype="bfloat16")),
    "qwen3_fp8_block": ("Qwen3", FP8, dict(dtype="fp8_block")),
    "llama_fp8_static": ("Llama", FP8, dict(dtype="fp8_static")),
    "llama_ct_channel": ("Llama", FP8, dict(dtype="ct_channel")),
    "qwen3_moe": ("Qwen3Moe", dict(
        head_dim=32, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=48,
        norm_topk_prob=True, rope_parameters=rope("default", 1000000.0)),
        dict(dtype="bfloat16")),
    "qwen3_moe_sparse": ("Qwen3Moe", dict(
        num_hidden_layers=4, head_dim=16, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, mlp_only_layers=[3], decoder_sparse_step=2,
        use_sliding_window=True, sliding_window=16), dict(dtype="bfloat16")),
    "olmo2": ("Olmo2", dict(), BF16),
    "granite": ("Granite", dict(
        attention_bias=True, mlp_bias=True, embedding_multiplier=3.0, attention_multiplier=0.4,
        residual_multiplier=0.3, logits_scaling=0.7), BF16),
    "cohere": ("Cohere", dict(layer_norm_eps=1e-3, logit_scale=2.5, tie_word_embeddings=True), BF16),
    "cohere2": ("Cohere2", dict(
        num_hidden_layers=3, layer_norm_eps=1e-3, logit_scale=2.5, sliding_window=16, rotary_pct=1.0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        tie_word_embeddings=True), BF16),
    "glm": ("Glm", dict(head_dim=32, rope_parameters=HALF), BF16),
    "glm4": ("Glm4", dict(head_dim=32, attention_bias=True, rope_parameters=HALF), BF16),
    "seed_oss": ("SeedOss", dict(head_dim=32, attention_out_bias=True, mlp_bias=True), BF16),
    "exaone4": ("Exaone4", dict(
        num_hidden_layers=4, intermediate_size=64, sliding_window=16, sliding_window_pattern=4,
        layer_types=["sliding_attention"] * 3 + ["full_attention"]), BF16),
    "exaone4_full": ("Exaone4", dict(
        sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 2,
        tie_word_embeddings=True), BF16),
    "ernie4_5": ("Ernie4_5", dict(head_dim=32, use_bias=True, tie_word_embeddings=True), BF16),
    "nemotron": ("Nemotron", dict(
        head_dim=16, attention_bias=True, mlp_bias=True, norm_eps=1e-3, rope_parameters=HALF), BF16),
    "phi2": ("Phi", dict(intermediate_size=256, num_key_value_heads=4, layer_norm_eps=1e-3,
                         rope_parameters=HALF), BF16),
    "starcoder2": ("Starcoder2", dict(sliding_window=16, norm_epsilon=1e-3,
                                      tie_word_embeddings=True), BF16),
    "qwen2_moe": ("Qwen2Moe", dict(
        num_experts=6, num_experts_per_tok=2, moe_intermediate_size=48,
        shared_expert_intermediate_size=112, mlp_only_layers=[0]), BF16),
    "qwen3_next_moe": ("Qwen3Next", dict(
        num_hidden_layers=2, head_dim=16, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, shared_expert_intermediate_size=48, linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
        layer_types=["linear_attention", "full_attention"],
        rope_parameters=rope("default", 10000.0, partial_rotary_factor=0.5)), BF16),
    "olmoe": ("Olmoe", dict(intermediate_size=48, num_experts=6, num_experts_per_tok=3), BF16),
    "granitemoe": ("GraniteMoe", dict(
        intermediate_size=48, num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=3.0,
        attention_multiplier=0.4, residual_multiplier=0.3, logits_scaling=0.7), BF16),
    "granitemoeshared": ("GraniteMoeShared", dict(
        intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=64, attention_multiplier=0.25, attention_bias=True), BF16),
    "glm4_moe": ("Glm4Moe", dict(
        num_hidden_layers=3, head_dim=16, intermediate_size=64, n_routed_experts=8,
        num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=2, n_group=4,
        topk_group=2, routed_scaling_factor=1.8, attention_bias=True, use_qk_norm=True,
        rope_parameters=HALF), BF16),
    "glm4_moe_plain": ("Glm4Moe", dict(
        head_dim=16, intermediate_size=64, n_routed_experts=5, num_experts_per_tok=3,
        moe_intermediate_size=32, first_k_dense_replace=0, norm_topk_prob=False,
        rope_parameters=rope("default", partial_rotary_factor=1.0)), BF16),
    "minimax_m2": ("MiniMaxM2", dict(
        head_dim=32, intermediate_size=48, num_local_experts=6, num_experts_per_tok=2,
        rope_parameters=HALF), BF16),
    "mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2), dict(dtype="float16")),
    "gpt_oss": ("GptOss", dict(
        num_hidden_layers=3, head_dim=16, intermediate_size=32, num_local_experts=5,
        num_experts_per_tok=2, sliding_window=16, attention_bias=True, rope_parameters=rope(
            "yarn", 150000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
            original_max_position_embeddings=32)), BF16),
    "deepseek_v2": ("DeepseekV2", dict(
        num_hidden_layers=3, num_key_value_heads=4, intermediate_size=64, q_lora_rank=None,
        kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=32,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=2,
        first_k_dense_replace=1, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=2.0, rope_parameters=rope(
            "yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
            mscale=0.7, mscale_all_dim=0.7)), BF16),
    "deepseek_v2_greedy": ("DeepseekV2", dict(
        num_attention_heads=2, intermediate_size=64, q_lora_rank=24,
        kv_lora_rank=48, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=16,
        n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1,
        first_k_dense_replace=0, n_group=1, topk_group=1), BF16),
    "deepseek_v3": ("DeepseekV3", dict(
        num_hidden_layers=3, num_key_value_heads=4, intermediate_size=64, q_lora_rank=48,
        kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=16,
        n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=1,
        first_k_dense_replace=1, n_group=4, topk_group=2, routed_scaling_factor=1.8,
        norm_topk_prob=True, rope_parameters=rope(
            "yarn", factor=8.0, original_max_position_embeddings=32, mscale=1.0,
            mscale_all_dim=1.0)), BF16),
    "glm4_moe_lite": ("Glm4MoeLite", dict(
        num_key_value_heads=4, intermediate_size=64, q_lora_rank=24, kv_lora_rank=32,
        qk_nope_head_dim=48, qk_rope_head_dim=16, v_head_dim=32, n_routed_experts=6,
        num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1,
        routed_scaling_factor=1.8, mlp_layer_types=["sparse", "dense"]), BF16),
    "youtu": ("Youtu", dict(
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=48, qk_nope_head_dim=16,
        qk_rope_head_dim=32, v_head_dim=16, tie_word_embeddings=True), BF16),
    "dots1": ("Dots1", dict(
        head_dim=32, intermediate_size=64, n_routed_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True,
        routed_scaling_factor=1.5), BF16),
    "qwen3_5": ("Qwen3_5Text", dict(
        num_hidden_layers=4, head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=16, linear_value_head_dim=24, intermediate_size=64,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        rope_parameters=rope("default", 1000000.0, partial_rotary_factor=0.25)), BF16),
    "llama4": ("Llama4Text", dict(
        NARROW, num_hidden_layers=4, head_dim=16, intermediate_size=16, intermediate_size_mlp=48,
        num_local_experts=3, num_experts_per_tok=1, interleave_moe_layer_step=2,
        attention_chunk_size=10, floor_scale=6, attn_scale=0.5), SMALL),
    "llama4_pairs": ("Llama4Text", dict(
        NARROW, head_dim=16, intermediate_size=16, intermediate_size_mlp=48, num_local_experts=3,
        num_experts_per_tok=2, use_qk_norm=False, attn_temperature_tuning=False,
        no_rope_layers=[0, 1], attention_chunk_size=8), SMALL),
    "hunyuan": ("HunYuanDenseV1", dict(
        NARROW, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        rope_parameters=rope("dynamic", alpha=50.0, factor=1.0)), SMALL),
    "hunyuan_moe": ("HunYuanMoEV1", dict(
        NARROW, head_dim=16, num_experts=4, moe_topk=[2, 2], intermediate_size=16,
        moe_intermediate_size=[16, 16], num_shared_expert=[1, 1],
        rope_parameters=rope("default")), SMALL),
    "ernie4_5_moe": ("Ernie4_5_Moe", dict(
        NARROW, num_hidden_layers=3, moe_num_experts=5, moe_k=2, moe_intermediate_size=16,
        moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2), SMALL),
    "gpt2": ("GPT2LMHead", dict(n_embd=32, n_head=2, n_layer=2, n_positions=40,
                                layer_norm_epsilon=1e-3), SMALL_BARE),
    "gpt_neox": ("GPTNeoX", dict(
        hidden_size=32, num_attention_heads=2, num_hidden_layers=2, intermediate_size=64,
        max_position_embeddings=128, layer_norm_eps=1e-3, rope_parameters=rope(
            "default", 1000.0, partial_rotary_factor=0.25)), SMALL_BARE),
    "gpt_neox_serial": ("GPTNeoX", dict(
        hidden_size=32, num_attention_heads=2, num_hidden_layers=2, intermediate_size=64,
        max_position_embeddings=128, use_parallel_residual=False, hidden_act="gelu_new",
        attention_bias=False, rope_parameters=rope("default", partial_rotary_factor=0.5)),
        SMALL_BARE),
    "falcon": ("Falcon", dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2,
                              layer_norm_epsilon=1e-3), SMALL_BARE),
    "falcon_grouped": ("Falcon", dict(
        hidden_size=32, num_attention_heads=4, num_kv_heads=2, num_hidden_layers=2,
        new_decoder_architecture=True, tie_word_embeddings=False), SMALL_BARE),
    "falcon_alibi": ("Falcon", dict(
        hidden_size=48, num_attention_heads=3, num_hidden_layers=2, ffn_hidden_size=64, alibi=True,
        multi_query=False, parallel_attn=False, bias=True), dict(SMALL_BARE, attention="sdpa")),
    "bloom": ("Bloom", dict(hidden_size=32, n_head=2, n_layer=2, layer_norm_epsilon=1e-3),
              SMALL_BARE),
    "mpt": ("Mpt", dict(d_model=48, n_heads=3, n_layers=1, max_seq_len=256), SMALL_BARE),
    "deepseek_v3_fp8_e8m0": ("DeepseekV3", dict(
        num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, q_lora_rank=None,
        kv_lora_rank=160, qk_nope_head_dim=128, qk_rope_head_dim=32, v_head_dim=128,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1,
        first_k_dense_replace=0, n_group=1, topk_group=1, norm_topk_prob=True),
        dict(dtype="fp8_e8m0")),
    "lfm2": ("Lfm2", dict(
        num_hidden_layers=4, norm_eps=1e-3, tie_word_embeddings=True, block_multiple_of=16,
        block_ffn_dim_multiplier=1.1,
        layer_types=["conv", "full_attention", "conv", "conv"]), BF16),
    "lfm2_bias": ("Lfm2", dict(
        NARROW, num_hidden_layers=3, conv_L_cache=4, conv_bias=True, block_auto_adjust_ff_dim=False,
        layer_types=["full_attention", "conv", "conv"]), SMALL),
    "lfm2_moe": ("Lfm2Moe", dict(
        NARROW, num_hidden_layers=3, num_dense_layers=1, num_experts=6, num_experts_per_tok=2,
        moe_intermediate_size=32, tie_word_embeddings=True,
        layer_types=["conv", "full_attention", "conv"]), SMALL),
    "mamba2": ("Mamba2", dict(
        hidden_size=32, num_hidden_layers=3, num_heads=4, head_dim=16, n_groups=2, state_size=24,
        layer_norm_epsilon=1e-3), SMALL_BARE),
    "mamba2_bias": ("Mamba2", dict(
        hidden_size=48, num_hidden_layers=2, num_heads=6, head_dim=16, n_groups=1, state_size=20,
        conv_kernel=3, use_bias=True, use_conv_bias=False, tie_word_embeddings=True),
        dict(SMALL_BARE, dtype="float8_e4m3fn")),
    "granitemoehybrid": ("GraniteMoeHybrid", dict(
        NARROW, intermediate_size=24, shared_intermediate_size=40,
        num_local_experts=4, mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=24,
        embedding_multiplier=3.0, attention_multiplier=0.4, residual_multiplier=0.3,
        logits_scaling=0.7, layer_types=["linear_attention", "full_attention"]), SMALL),
    "granitemoehybrid_dense": ("GraniteMoeHybrid", dict(
        NARROW, shared_intermediate_size=40, num_local_experts=0, position_embedding_type="rope",
        mamba_n_heads=8, mamba_d_head="auto", mamba_d_state=20, mamba_d_conv=3,
        mamba_proj_bias=True, mamba_conv_bias=False, attention_multiplier=0.3,
        tie_word_embeddings=True, layer_types=["full_attention", "linear_attention"]), SMALL),
    "bamba": ("Bamba", dict(
        NARROW, head_dim=16, num_hidden_layers=3, mamba_n_heads=4, mamba_d_head=16,
        mamba_d_state=16, attn_layer_indices=[1]), dict(SMALL, decode=False)),
    "minimax": ("MiniMax", dict(
        NARROW, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
        intermediate_size=24, num_local_experts=3, num_experts_per_tok=2, block_size=5,
        full_attn_alpha_factor=1.7, linear_attn_alpha_factor=2.3, mlp_alpha_factor=3.1,
        layer_types=["full_attention", "linear_attention", "linear_attention"]), SMALL),
    "gemma4": ("Gemma4Text", dict(
        NARROW, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        global_head_dim=32, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=8,
        hidden_size_per_layer_input=0, final_logit_softcapping=6.0, tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={"sliding_attention": rope("default", 100.0),
                         "full_attention": rope("proportional", partial_rotary_factor=0.25)}),
        SMALL),
    "gemma4_v": ("Gemma4Text", dict(
        NARROW, num_hidden_layers=3, head_dim=48, global_head_dim=16, sliding_window=8,
        hidden_size_per_layer_input=0, rope_parameters={
            "sliding_attention": rope("default", 100.0),
            "full_attention": rope("proportional", 1000.0, partial_rotary_factor=0.5)}), SMALL),
    "gemma4_moe": ("Gemma4Text", dict(
        NARROW, num_hidden_layers=2, head_dim=16, global_head_dim=32, sliding_window=8,
        hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6, top_k_experts=2,
        moe_intermediate_size=24, tie_word_embeddings=True), SMALL),
    # What attention is multiplied by, in and out, is not 1 and no power of two, as nothing else is.
    "falcon_h1": ("FalconH1", dict(
        NARROW, head_dim=16, mamba_d_ssm=48, mamba_n_heads=3, mamba_d_head=16, mamba_n_groups=1,
        mamba_d_state=20, embedding_multiplier=2.3, lm_head_multiplier=0.6, key_multiplier=0.7,
        attention_in_multiplier=1.3, attention_out_multiplier=0.9, ssm_in_multiplier=1.2,
        ssm_out_multiplier=0.7, ssm_multipliers=[0.8, 1.4, 0.9, 1.1, 0.6],
        mlp_multipliers=[1.7, 0.45]), SMALL),
    "falcon_h1_norm": ("FalconH1", dict(
        NARROW, head_dim=16, num_attention_heads=4, mamba_d_ssm=None, mamba_expand=2,
        mamba_n_heads=4, mamba_d_head="auto", mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=3,
        mamba_conv_bias=False, mamba_rms_norm=True, mamba_norm_before_gate=False,
        attention_in_multiplier=0.8, ssm_out_multiplier=1.3,
        ssm_multipliers=[0.6, 1.0, 1.3, 0.9, 1.5], tie_word_embeddings=True), SMALL),
    "nemotron_h": ("NemotronH", dict(
        hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
        head_dim=12, max_position_embeddings=256, layer_norm_epsilon=1e-4, mamba_num_heads=4,
        mamba_head_dim=12, n_groups=2, ssm_state_size=20, conv_kernel=3, use_bias=True,
        mlp_bias=True, layers_block_type=[
            "linear_attention", "mlp", "linear_attention", "full_attention", "mlp"]), SMALL_BARE),
    "nemotron_h_moe": ("NemotronH", dict(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        max_position_embeddings=256, mamba_num_heads=4, mamba_head_dim=16, n_groups=1,
        ssm_state_size=16, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=32, moe_shared_expert_intermediate_size=40,
        routed_scaling_factor=1.7, layers_block_type=[
            "linear_attention", "moe", "full_attention", "moe"]), SMALL_BARE),
    "mamba": ("Mamba", dict(
        hidden_size=32, num_hidden_layers=3, state_size=20, time_step_rank=5,
        layer_norm_epsilon=1e-3, tie_word_embeddings=False), SMALL_BARE),
    "mamba_bias": ("Mamba", dict(
        hidden_size=48, num_hidden_layers=2, expand=1, conv_kernel=3, use_bias=True,
        use_conv_bias=False), dict(SMALL_BARE, dtype="float8_e4m3fn")),
    "falcon_mamba": ("FalconMamba", dict(
        hidden_size=32, num_hidden_layers=2, expand=16, intermediate_size=64, state_size=16,
        time_step_rank=6, mixer_rms_eps=1e-2), SMALL_BARE),
    "jamba": ("Jamba", dict(
        NARROW, num_hidden_layers=4, attn_layer_period=3, attn_layer_offset=1, num_experts=4,
        num_experts_per_tok=2, intermediate_size=24, mamba_d_state=12, mamba_d_conv=3,
        mamba_expand=2, mamba_dt_rank=5, mamba_proj_bias=True), SMALL),
    "jamba_dense": ("Jamba", dict(
        NARROW, num_hidden_layers=3, attn_layer_period=2, attn_layer_offset=0, num_experts=1,
        num_attention_heads=4, mamba_expand=1, rms_norm_eps=1e-3, tie_word_embeddings=True), SMALL),
    "gemma4_e": ("Gemma4Text", dict(
        NARROW, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        global_head_dim=32, sliding_window=8, hidden_size_per_layer_input=12,
        vocab_size_per_layer_input=128, num_kv_shared_layers=2, use_double_wide_mlp=True,
        rms_norm_eps=1e-3, final_logit_softcapping=6.0, tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                     "sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": rope("default", 100.0),
                         "full_attention": rope("proportional", partial_rotary_factor=0.25)}),
        SMALL),
    "gemma4_e_own": ("Gemma4Text", dict(
        NARROW, num_hidden_layers=2, head_dim=16, global_head_dim=32, sliding_window=8,
        hidden_size_per_layer_input=20, vocab_size_per_layer_input=136, use_double_wide_mlp=True,
        layer_types=["sliding_attention", "full_attention"], rope_parameters={
            "sliding_attention": rope("default", 100.0),
            "full_attention": rope("proportional", 1000.0, partial_rotary_factor=0.5)}), SMALL),
    # Prompts of 48 tokens: more than rows see, and fewer.
    "deepseek_v32": ("DeepseekV32", dict(
        NARROW, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=24,
        kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, index_topk=11,
        index_n_heads=6, index_head_dim=32, n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1, n_group=2,
        topk_group=1, rope_parameters=rope(
            "yarn", factor=8.0, original_max_position_embeddings=32, mscale=1.0,
            mscale_all_dim=1.0)), dict(dtype="float16")),
    "deepseek_v32_all": ("DeepseekV32", dict(
        NARROW, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=16, kv_lora_rank=16,
        qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, index_topk=64, index_n_heads=2,
        index_head_dim=16, n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=16,
        n_shared_experts=1, first_k_dense_replace=2, n_group=1, topk_group=1,
        rope_parameters=rope("default")), BF16),
    "glm_moe_dsa": ("GlmMoeDsa", dict(
        NARROW, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16,
        qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32, index_topk=16, index_n_heads=4,
        index_head_dim=32, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        n_shared_experts=1, first_k_dense_replace=1, rope_parameters=rope("default")),
        dict(dtype="float16")),
    "gemma3n": ("Gemma3nText", dict(
        NARROW, num_hidden_layers=5, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        intermediate_size=[48, 48, 64, 48, 48], sliding_window=8, hidden_size_per_layer_input=12,
        vocab_size_per_layer_input=128, num_kv_shared_layers=2, laurel_rank=6, rms_norm_eps=1e-3,
        activation_sparsity_pattern=[0.9, 0.4, 0.0, 0.0, 0.7], final_logit_softcapping=6.0,
        tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                     "sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": rope("default", 100.0),
                         "full_attention": rope("default", 1000.0)}), SMALL),
    # With tokens behind the table of what layers are given.
    "gemma3n_two": ("Gemma3nText", dict(
        NARROW, num_hidden_layers=2, head_dim=16, sliding_window=8, hidden_size_per_layer_input=20,
        vocab_size_per_layer_input=100, num_kv_shared_layers=0, laurel_rank=16, altup_num_inputs=2,
        altup_correct_scale=False, attention_bias=True, tie_word_embeddings=False,
        layer_types=["sliding_attention", "full_attention"]), SMALL),
    # Layers that see what one before them has chosen, of 48 tokens.
    "glm_moe_dsa_shared": ("GlmMoeDsa", dict(
        NARROW, num_hidden_layers=5, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=16,
        kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, index_topk=12,
        index_n_heads=4, index_head_dim=32, index_topk_freq=3, n_routed_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
        first_k_dense_replace=3, rope_parameters=rope("default")), dict(dtype="float16")),
    # Every other one of the first layers sees a window.
    "qwen2_moe_window": ("Qwen2Moe", dict(
        NARROW, num_hidden_layers=5, num_experts=3, num_experts_per_tok=1, moe_intermediate_size=16,
        shared_expert_intermediate_size=16, use_sliding_window=True, sliding_window=8,
        max_window_layers=3, decoder_sparse_step=2), SMALL),
}
