#include <stdio.h>
#include <stdlib.h>
#include "NAME.h"

enum { M = 256, N = 512 }; /* as in the Makefile */
static float A[M][N], x[N], b[M], y[M];

int main(void) {
  for (int m = 0; m < M; m++) for (int n = 0; n < N; n++) A[m][n] = (float)((m + n) % 7 - 3);
  for (int n = 0; n < N; n++) x[n] = (float)(n % 5 - 2);
  for (int m = 0; m < M; m++) b[m] = (float)m;
  NAME_args args = {.A = &A[0][0], .A_stride0 = sizeof A[0], .x = x, .b = b, .y = y};
  void *workspace = malloc(NAME_workspace_bytes(&args) + 1);
  int status = workspace ? NAME(&args, workspace, NULL) : 1;
  int wrong = 0;
  for (int m = 0; m < M; m++) {
    float sum = b[m];
    for (int n = 0; n < N; n++) sum += A[m][n] * x[n];
    wrong += y[m] != (sum > 0 ? sum : 0); /* whole numbers: sums in any order are equal */
  }
  printf("status %d, %d of %d results differ\n", status, wrong, M);
  free(workspace);
  return status || wrong;
}
