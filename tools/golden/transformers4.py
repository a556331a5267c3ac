"""The config.json that transformers 4 would have written for a config of transformers 5."""


def old_rope(new):
    """rope_parameters without theta -> rope_scaling, or None for the default."""
    scaling = {key: value for key, value in new.items()
               if key not in ("rope_theta", "partial_rotary_factor")}
    return None if scaling.get("rope_type", "default") == "default" else scaling


def config_of_transformers4(new):
    """Spelling of 4.4x: rope_theta, rope_scaling, torch_dtype, no layer_types."""
    old = {key: value for key, value in new.items()
           if key not in ("rope_parameters", "dtype", "layer_types") and not key.startswith("_")}
    old["torch_dtype"] = new.get("dtype", "float32")
    old["transformers_version"] = "4.48.0"
    kind = new["model_type"]
    if "time_step_limit" in new:
        old["time_step_limit"] = [0.0, float("inf")]
    if kind == "nemotron_h":
        letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
        types = old.pop("layers_block_type")
        old["hybrid_override_pattern"] = "".join(letters[layer] for layer in types)
        old["num_hidden_layers"] = len(types)
    if "shared" in new.get("indexer_types", []):  # as published: by a period
        types = old.pop("indexer_types")
        old["index_topk_freq"] = types.index("full", types.index("shared")) - 1
    parameters = new.get("rope_parameters")
    if parameters is None:
        return old
    if kind == "gemma4_text":  # as published: heads of one kind of layer instead of each layer's
        own = list(old.pop("per_layer_config").values())[-1]
        return {**old, "rope_parameters": parameters, "layer_types": new["layer_types"],
                "global_head_dim": own["head_dim"],
                "num_global_key_value_heads": own.get("num_key_value_heads")}
    if kind in ("gemma3_text", "gemma3n_text"):
        old["rope_theta"] = parameters["full_attention"]["rope_theta"]
        old["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        old["rope_scaling"] = old_rope(parameters["full_attention"])
        if kind == "gemma3n_text":
            return {**old, "layer_types": new["layer_types"]}
        old["sliding_window_pattern"] = new["layer_types"].index("full_attention") + 1
        old["cache_implementation"] = "hybrid"
        return old
    old["rope_theta"] = parameters["rope_theta"]
    old["rope_scaling"] = old_rope(parameters)
    if kind == "gpt_neox":
        old["rotary_emb_base"] = old.pop("rope_theta")
        old["rotary_pct"] = parameters["partial_rotary_factor"]
    elif "partial_rotary_factor" in parameters:
        old["partial_rotary_factor"] = parameters["partial_rotary_factor"]
    if kind == "phi3" and old["rope_scaling"]:
        # Phi-3 spells the kind `type` and keeps the original context beside it.
        scaling = old["rope_scaling"]
        old["original_max_position_embeddings"] = scaling.pop(
            "original_max_position_embeddings", new.get("original_max_position_embeddings"))
        scaling["type"] = scaling.pop("rope_type")
        scaling.pop("factor", None)
    if kind == "cohere2":
        old["sliding_window_pattern"] = new["layer_types"].index("full_attention") + 1
    if kind == "exaone4" and new["sliding_window"] is None:
        old["layer_types"] = new["layer_types"]
    if kind == "lfm2":
        old["full_attn_idxs"] = [
            i for i, layer in enumerate(new["layer_types"]) if layer == "full_attention"]
        old["block_ff_dim"] = old.pop("intermediate_size")
        old["tie_embedding"] = old.pop("tie_word_embeddings")
    if kind in ("lfm2_moe", "granitemoehybrid", "minimax"):
        old["layer_types"] = new["layer_types"]
    if kind in ("qwen3_next", "qwen3_5_text"):
        old["full_attention_interval"] = new["layer_types"].index("full_attention") + 1
    if kind == "qwen2" and not new.get("use_sliding_window"):
        old["sliding_window"] = 4096  # written even where it is not used
        old["max_window_layers"] = 28
    return old
