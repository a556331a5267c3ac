#include "backend/xpu/pieces/element.cl"
// Experts' numbers become those of the slots that hold them, a work-item for each choice. -D ITEMS.
SLUICE_KERNEL any_map_experts(global const int* token_ids, global const int* positions,
                              global const int* map, global int* ids, ulong ids_stride,
                              global uint* counts, global const int* counted, int tokens,
                              int experts, int top_k) {
  const long choice = get_global_id(0);
  const long token = choice / top_k, i = choice % top_k;
  if (token >= tokens) return;
  const int expert = ids[token * ids_stride + i];
  // Whole numbers add up to the same in any order.
  if (counts && (!counted || token < *counted)) atomic_inc(counts + expert);
  uint hash = (uint)positions[token] * 0x9E3779B1u + (uint)token_ids[token] * 0x85EBCA77u;
  hash ^= hash >> 16;
  hash *= 0x7FEB352Du;
  hash ^= hash >> 15;
  const int first = map[expert];
  const uint slots = (uint)(map[expert + 1] - first);
  ids[token * ids_stride + i] = map[experts + 1 + first + (int)mul_hi(hash, slots)];
}
