// The linear kernels, for the .cu files that define them and for config.cc that chooses among them.
// A list applies macros of its user's to each kernel:
//
// - STREAM(name, W, tokens, rows, tiles, step, blocks) is the kernel <name>_stream_<tokens>.
// - FETCHED(name, W, tokens, rows, tiles, blocks) has the same name; W goes to shared memory first.
// - TILE(name, W, tokens, rows, tiles, stages) is <name>_tile_<tokens>.
// - ANY(name, W, tokens, rows, tiles, step, blocks) is <name>_any_<tokens>: rows of any length.
//
// `rows` are 16 rows of W each (in a tile those of a warp), `tiles` 8 tokens each, and `blocks` as
// many as a multiprocessor should hold. W is passed on.
#pragma once

// x in 16 bits, W in the same type or in F8.
#define LINEAR_LIST_16BIT(STREAM, TILE, name, W) \
  STREAM(name, W, 8, 1, 1, 8, 2)                 \
  STREAM(name, W, 16, 1, 2, 8, 2)                \
  STREAM(name, W, 32, 2, 4, 2, 2)                \
  STREAM(name, W, 64, 2, 8, 2, 2)                \
  TILE(name, W, 64, 2, 8, 4)
// Tiles would convert W more often than streams gain from them.
#define LINEAR_LIST_16BIT_F8(STREAM, name, W) \
  STREAM(name, W, 8, 1, 1, 4, 2)              \
  STREAM(name, W, 16, 1, 2, 4, 2)             \
  STREAM(name, W, 32, 2, 4, 2, 2)             \
  STREAM(name, W, 64, 2, 8, 1, 1)

// x in F32; with W in blocks in BF16 too.
#define LINEAR_LIST_PLAIN(STREAM, TILE, name, W) \
  STREAM(name, W, 8, 1, 1, 4, 2)                 \
  STREAM(name, W, 32, 2, 4, 1, 2)                \
  TILE(name, W, 64, 1, 8, 4)
#define LINEAR_LIST_BLOCKS(FETCHED, STREAM, TILE, name, W) \
  FETCHED(name, W, 8, 2, 1, 2)                             \
  STREAM(name, W, 32, 2, 4, 1, 2)                          \
  TILE(name, W, 64, 2, 8, 4)
// Few tokens: blocks whose words lie in few lines are read where they are.
#define LINEAR_LIST_WORDS(STREAM, TILE, name, W) \
  STREAM(name, W, 8, 1, 1, 2, 2)                 \
  STREAM(name, W, 32, 1, 4, 1, 2)                \
  TILE(name, W, 64, 1, 8, 2)
// Those at any even address are fetched first.
#define LINEAR_LIST_BYTES(FETCHED, STREAM, TILE, name, W) \
  FETCHED(name, W, 8, 1, 1, 2)                            \
  STREAM(name, W, 32, 1, 4, 1, 2)                         \
  TILE(name, W, 64, 1, 8, 2)

#define LINEAR_LIST_ANY(ANY, name, W) ANY(name, W, 8, 1, 1, 1, 2)

// Formats of W beside x in F32, and those of blocks beside x in BF16, by the list that they have:
// FORMAT(name, value of DType).
#define LINEAR_PLAIN_FORMATS(FORMAT) \
  FORMAT(f32, kF32) FORMAT(f16, kF16) FORMAT(bf16, kBF16) FORMAT(f8, kF8E4M3)
#define LINEAR_BLOCK_FORMATS(FORMAT) \
  FORMAT(q4_0, kQ4_0)                \
  FORMAT(q4_1, kQ4_1)                \
  FORMAT(q5_0, kQ5_0)                \
  FORMAT(q5_1, kQ5_1)                \
  FORMAT(q8_0, kQ8_0)                \
  FORMAT(iq4_nl, kIQ4_NL)            \
  FORMAT(mxfp4, kMXFP4)
#define LINEAR_WORD_FORMATS(FORMAT) \
  FORMAT(q2_k, kQ2_K) FORMAT(q3_k, kQ3_K) FORMAT(q4_k, kQ4_K) FORMAT(q5_k, kQ5_K)
#define LINEAR_BYTE_FORMATS(FORMAT) FORMAT(q6_k, kQ6_K)
