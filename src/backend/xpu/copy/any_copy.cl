#include "backend/xpu/pieces/base.cl"
// Up to 16 runs of rows from one place of the device to another, which touch nothing of one
// another. A work-group does PIECE bytes of a row; pieces are numbered through all runs, and `end`
// is the number after a run's last one. Runs that are not there end where the last one does.
#define PIECE 4096
#define RUNS 16

typedef struct {
  global uchar* to;
  global const uchar* from;
  ulong row_bytes, to_stride, from_stride, end;
} Run;

#define RUN_PARAMS(i)                                                                    \
  global uchar *to##i, global const uchar *from##i, ulong row_bytes##i, ulong stride##i, \
      ulong from_stride##i, ulong end##i
#define RUN_OF(i) \
  { to##i, from##i, row_bytes##i, stride##i, from_stride##i, end##i }

#define SLUICE_MOVE(unit)                                               \
  for (ulong i = get_local_id(0); i < bytes / sizeof(unit); i += ITEMS) \
    ((global unit*)to)[i] = ((global const unit*)from)[i];

SLUICE_KERNEL copy_runs(RUN_PARAMS(0), RUN_PARAMS(1), RUN_PARAMS(2), RUN_PARAMS(3), RUN_PARAMS(4),
                        RUN_PARAMS(5), RUN_PARAMS(6), RUN_PARAMS(7), RUN_PARAMS(8), RUN_PARAMS(9),
                        RUN_PARAMS(10), RUN_PARAMS(11), RUN_PARAMS(12), RUN_PARAMS(13),
                        RUN_PARAMS(14), RUN_PARAMS(15)) {
  const Run runs[RUNS] = {RUN_OF(0),  RUN_OF(1),  RUN_OF(2),  RUN_OF(3), RUN_OF(4),  RUN_OF(5),
                          RUN_OF(6),  RUN_OF(7),  RUN_OF(8),  RUN_OF(9), RUN_OF(10), RUN_OF(11),
                          RUN_OF(12), RUN_OF(13), RUN_OF(14), RUN_OF(15)};
  const ulong piece = get_group_id(0);
  int at = 0;
  while (piece >= runs[at].end) ++at;
  const Run run = runs[at];
  const ulong in_run = piece - (at == 0 ? 0 : runs[at - 1].end);
  const ulong of_row = (run.row_bytes + PIECE - 1) / PIECE;
  const ulong row = in_run / of_row, begin = in_run % of_row * PIECE;
  const ulong bytes = min(run.row_bytes - begin, (ulong)PIECE);
  global uchar* to = run.to + row * run.to_stride + begin;
  global const uchar* from = run.from + row * run.from_stride + begin;
  const ulong bits = (ulong)to | (ulong)from | bytes;
  if (bits % 16 == 0) {
    SLUICE_MOVE(uint4)
  } else if (bits % 4 == 0) {
    SLUICE_MOVE(uint)
  } else {
    SLUICE_MOVE(uchar)
  }
}
