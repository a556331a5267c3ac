#include "backend/cpu/linear/pack_tiles.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/linear/tiles.h"

namespace sluice::cpu {

size_t TileGroupBytes(int64_t k) {
  return static_cast<size_t>(k + kTileElements - 1) / kTileElements * kTileBytes;
}

size_t TilePackedBytes(const ops::Linear::Desc& desc) {
  return TileGroupBytes(desc.k) * ((static_cast<size_t>(desc.n) + kTileRows - 1) / kTileRows);
}

Status PackTileRows(const ops::Linear::Desc& desc, int64_t first_row,
                    std::span<const std::byte> rows, std::span<std::byte> packed) {
  SLUICE_RETURN_IF_ERROR(ops::CheckPackedRows(desc, first_row, rows.size()));
  if (packed.size() != TilePackedBytes(desc)) {
    return InvalidArgument(StrCat("the packed weight has ", packed.size(), " bytes, ",
                                  desc.ToString(), " needs ", TilePackedBytes(desc)));
  }
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  const int64_t count = static_cast<int64_t>(rows.size() / row_bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = first_row + i;
    const std::byte* in = rows.data() + i * row_bytes;
    std::byte* tile =
        packed.data() + row / kTileRows * TileGroupBytes(desc.k) + row % kTileRows * 64;
    for (size_t begin = 0; begin < row_bytes; begin += 64) {
      std::memcpy(tile, in + begin, std::min<size_t>(64, row_bytes - begin));
      tile += kTileBytes;
    }
  }
  return OkStatus();
}

}  // namespace sluice::cpu
