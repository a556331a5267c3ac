#include "backend/xpu/pieces/element.cl"
// Columns of a state [DK, columns] in registers, and sums over its rows. -D ACT, DK, COLS: columns
// of a work-item (1, 16), PARTS: work-items that share columns, each with the rows that are its
// number modulo PARTS; ITEMS is a multiple of PARTS.
#define COLUMN_ITEMS (ITEMS / PARTS)
#define ROWS ((DK + PARTS - 1) / PARTS)

#if COLS == 1
typedef float Columns;
#define load_columns(p) (*(p))
#define store_columns(x, p) (*(p) = (x))
#define load_columns_act load_act
#define store_columns_act store_act
#else
typedef float16 Columns;
#define load_columns(p) vload16(0, p)
#define store_columns(x, p) vstore16(x, 0, p)
#define load_columns_act load16_act
#define store_columns_act store16_act
#endif

#if PARTS == 1
#define SLUICE_LOCAL_COLUMNS(name)
#define sum_parts(x, name) (x)
#else
#define SLUICE_LOCAL_COLUMNS(name) local Columns name[ITEMS]
// Every work-item gets the sum over those that share its columns. Reached by all of the group.
#define sum_parts(x, name) reduce_parts(x, name)
Columns reduce_parts(Columns x, local Columns* parts) {
  const int item = get_local_id(0);
  parts[item] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  Columns sum = parts[item % COLUMN_ITEMS];
  for (int p = 1; p < PARTS; ++p) sum += parts[p * COLUMN_ITEMS + item % COLUMN_ITEMS];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}
#endif
