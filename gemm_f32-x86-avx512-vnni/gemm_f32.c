/* gemm_f32 on x86-avx512-vnni: K = 48, M = 37, N = 50
   Emitted by isamap 0.1.0. Compile with -O3 -std=c11 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512 -mavx512vnni -fno-strict-aliasing;
   gcc 12 needs -fno-tree-loop-vectorize too, or it loads from behind the last row of a tensor,
   -fno-tree-coalesce-vars and -fno-tree-sink, or it keeps sums on the stack, and
   -fno-tree-loop-distribute-patterns, or it copies rows of a few registers by calls, and
   -fno-predictive-commoning, or it broadcasts out of integer registers;
   with -fno-schedule-insns2 it leaves loads in the order of the schedule. */

#include "gemm_f32.h"

#include <immintrin.h>

#if defined(__aarch64__)
#define VECTOR_CLASS "w"
#elif defined(__AVX512F__)
#define VECTOR_CLASS "v"
#elif defined(__SSE2__)
#define VECTOR_CLASS "x"
#endif

/* Read once: compilers would read memory again for each of the two or three instructions that use it. */
#ifdef VECTOR_CLASS
#define READ_ONCE(x) __asm__("" : "+" VECTOR_CLASS(x))
#else
#define READ_ONCE(x) ((void)0)
#endif

/* The last use of x: without it, compilers end the sum before in its register, and move it back later. */
#ifdef VECTOR_CLASS
#define LAST_USE(x, sum) __asm__("" : "+" VECTOR_CLASS(sum) : VECTOR_CLASS(x))
#else
#define LAST_USE(x, sum) ((void)0)
#endif

static __attribute__((always_inline)) inline void gemm_f32_body(
    const float *restrict A,
    const float *restrict B,
    float *restrict C,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0) {
  { /* C[m, n] += A[m, k] * B[k, n]; */
    for (int64_t m0 = 0; m0 < 2; m0++) {
      { /* hold c */
        __m512 v0;
        v0 = _mm512_loadu_ps(C + 13*C_s0*m0);
        __m512 v1;
        v1 = _mm512_loadu_ps(C + 13*C_s0*m0 + 16);
        __m512 v2;
        v2 = _mm512_loadu_ps(C + 13*C_s0*m0 + C_s0);
        __m512 v3;
        v3 = _mm512_loadu_ps(C + 13*C_s0*m0 + C_s0 + 16);
        __m512 v4;
        v4 = _mm512_loadu_ps(C + 13*C_s0*m0 + 2*C_s0);
        __m512 v5;
        v5 = _mm512_loadu_ps(C + 13*C_s0*m0 + 2*C_s0 + 16);
        __m512 v6;
        v6 = _mm512_loadu_ps(C + 13*C_s0*m0 + 3*C_s0);
        __m512 v7;
        v7 = _mm512_loadu_ps(C + 13*C_s0*m0 + 3*C_s0 + 16);
        __m512 v8;
        v8 = _mm512_loadu_ps(C + 13*C_s0*m0 + 4*C_s0);
        __m512 v9;
        v9 = _mm512_loadu_ps(C + 13*C_s0*m0 + 4*C_s0 + 16);
        __m512 v10;
        v10 = _mm512_loadu_ps(C + 13*C_s0*m0 + 5*C_s0);
        __m512 v11;
        v11 = _mm512_loadu_ps(C + 13*C_s0*m0 + 5*C_s0 + 16);
        __m512 v12;
        v12 = _mm512_loadu_ps(C + 13*C_s0*m0 + 6*C_s0);
        __m512 v13;
        v13 = _mm512_loadu_ps(C + 13*C_s0*m0 + 6*C_s0 + 16);
        __m512 v14;
        v14 = _mm512_loadu_ps(C + 13*C_s0*m0 + 7*C_s0);
        __m512 v15;
        v15 = _mm512_loadu_ps(C + 13*C_s0*m0 + 7*C_s0 + 16);
        __m512 v16;
        v16 = _mm512_loadu_ps(C + 13*C_s0*m0 + 8*C_s0);
        __m512 v17;
        v17 = _mm512_loadu_ps(C + 13*C_s0*m0 + 8*C_s0 + 16);
        __m512 v18;
        v18 = _mm512_loadu_ps(C + 13*C_s0*m0 + 9*C_s0);
        __m512 v19;
        v19 = _mm512_loadu_ps(C + 13*C_s0*m0 + 9*C_s0 + 16);
        __m512 v20;
        v20 = _mm512_loadu_ps(C + 13*C_s0*m0 + 10*C_s0);
        __m512 v21;
        v21 = _mm512_loadu_ps(C + 13*C_s0*m0 + 10*C_s0 + 16);
        __m512 v22;
        v22 = _mm512_loadu_ps(C + 13*C_s0*m0 + 11*C_s0);
        __m512 v23;
        v23 = _mm512_loadu_ps(C + 13*C_s0*m0 + 11*C_s0 + 16);
        __m512 v24;
        v24 = _mm512_loadu_ps(C + 13*C_s0*m0 + 12*C_s0);
        __m512 v25;
        v25 = _mm512_loadu_ps(C + 13*C_s0*m0 + 12*C_s0 + 16);
        for (int64_t k0 = 0; k0 < 48; k0++) {
          __m512 v26;
          v26 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + k0)));
          __m512 v27;
          v27 = _mm512_loadu_ps(B + B_s0*k0);
          READ_ONCE(v27);
          v0 = _mm512_fmadd_ps(v26, v27, v0);
          __m512 v28;
          v28 = _mm512_loadu_ps(B + B_s0*k0 + 16);
          READ_ONCE(v28);
          v1 = _mm512_fmadd_ps(v26, v28, v1);
          LAST_USE(v26, v1);
          __m512 v29;
          v29 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + A_s0 + k0)));
          v2 = _mm512_fmadd_ps(v29, v27, v2);
          v3 = _mm512_fmadd_ps(v29, v28, v3);
          LAST_USE(v29, v3);
          __m512 v30;
          v30 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 2*A_s0 + k0)));
          v4 = _mm512_fmadd_ps(v30, v27, v4);
          v5 = _mm512_fmadd_ps(v30, v28, v5);
          LAST_USE(v30, v5);
          __m512 v31;
          v31 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 3*A_s0 + k0)));
          v6 = _mm512_fmadd_ps(v31, v27, v6);
          v7 = _mm512_fmadd_ps(v31, v28, v7);
          LAST_USE(v31, v7);
          __m512 v32;
          v32 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 4*A_s0 + k0)));
          v8 = _mm512_fmadd_ps(v32, v27, v8);
          v9 = _mm512_fmadd_ps(v32, v28, v9);
          LAST_USE(v32, v9);
          __m512 v33;
          v33 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 5*A_s0 + k0)));
          v10 = _mm512_fmadd_ps(v33, v27, v10);
          v11 = _mm512_fmadd_ps(v33, v28, v11);
          LAST_USE(v33, v11);
          __m512 v34;
          v34 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 6*A_s0 + k0)));
          v12 = _mm512_fmadd_ps(v34, v27, v12);
          v13 = _mm512_fmadd_ps(v34, v28, v13);
          LAST_USE(v34, v13);
          __m512 v35;
          v35 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 7*A_s0 + k0)));
          v14 = _mm512_fmadd_ps(v35, v27, v14);
          v15 = _mm512_fmadd_ps(v35, v28, v15);
          LAST_USE(v35, v15);
          __m512 v36;
          v36 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 8*A_s0 + k0)));
          v16 = _mm512_fmadd_ps(v36, v27, v16);
          v17 = _mm512_fmadd_ps(v36, v28, v17);
          LAST_USE(v36, v17);
          __m512 v37;
          v37 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 9*A_s0 + k0)));
          v18 = _mm512_fmadd_ps(v37, v27, v18);
          v19 = _mm512_fmadd_ps(v37, v28, v19);
          LAST_USE(v37, v19);
          __m512 v38;
          v38 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 10*A_s0 + k0)));
          v20 = _mm512_fmadd_ps(v38, v27, v20);
          v21 = _mm512_fmadd_ps(v38, v28, v21);
          LAST_USE(v38, v21);
          __m512 v39;
          v39 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 11*A_s0 + k0)));
          v22 = _mm512_fmadd_ps(v39, v27, v22);
          v23 = _mm512_fmadd_ps(v39, v28, v23);
          LAST_USE(v39, v23);
          __m512 v40;
          v40 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 12*A_s0 + k0)));
          v24 = _mm512_fmadd_ps(v40, v27, v24);
          LAST_USE(v27, v24);
          v25 = _mm512_fmadd_ps(v40, v28, v25);
          LAST_USE(v28, v25);
          LAST_USE(v40, v25);
        }
        _mm512_storeu_ps(C + 13*C_s0*m0, v0);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 16, v1);
        _mm512_storeu_ps(C + 13*C_s0*m0 + C_s0, v2);
        _mm512_storeu_ps(C + 13*C_s0*m0 + C_s0 + 16, v3);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 2*C_s0, v4);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 2*C_s0 + 16, v5);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 3*C_s0, v6);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 3*C_s0 + 16, v7);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 4*C_s0, v8);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 4*C_s0 + 16, v9);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 5*C_s0, v10);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 5*C_s0 + 16, v11);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 6*C_s0, v12);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 6*C_s0 + 16, v13);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 7*C_s0, v14);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 7*C_s0 + 16, v15);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 8*C_s0, v16);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 8*C_s0 + 16, v17);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 9*C_s0, v18);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 9*C_s0 + 16, v19);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 10*C_s0, v20);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 10*C_s0 + 16, v21);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 11*C_s0, v22);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 11*C_s0 + 16, v23);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 12*C_s0, v24);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 12*C_s0 + 16, v25);
      }
      { /* hold c */
        __m512 v41;
        v41 = _mm512_loadu_ps(C + 13*C_s0*m0 + 32);
        __m256 v42;
        v42 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 48);
        __m512 v43;
        v43 = _mm512_zextps256_ps512(v42);
        __m512 v44;
        v44 = _mm512_loadu_ps(C + 13*C_s0*m0 + C_s0 + 32);
        __m256 v45;
        v45 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + C_s0 + 48);
        __m512 v46;
        v46 = _mm512_zextps256_ps512(v45);
        __m512 v47;
        v47 = _mm512_loadu_ps(C + 13*C_s0*m0 + 2*C_s0 + 32);
        __m256 v48;
        v48 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 2*C_s0 + 48);
        __m512 v49;
        v49 = _mm512_zextps256_ps512(v48);
        __m512 v50;
        v50 = _mm512_loadu_ps(C + 13*C_s0*m0 + 3*C_s0 + 32);
        __m256 v51;
        v51 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 3*C_s0 + 48);
        __m512 v52;
        v52 = _mm512_zextps256_ps512(v51);
        __m512 v53;
        v53 = _mm512_loadu_ps(C + 13*C_s0*m0 + 4*C_s0 + 32);
        __m256 v54;
        v54 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 4*C_s0 + 48);
        __m512 v55;
        v55 = _mm512_zextps256_ps512(v54);
        __m512 v56;
        v56 = _mm512_loadu_ps(C + 13*C_s0*m0 + 5*C_s0 + 32);
        __m256 v57;
        v57 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 5*C_s0 + 48);
        __m512 v58;
        v58 = _mm512_zextps256_ps512(v57);
        __m512 v59;
        v59 = _mm512_loadu_ps(C + 13*C_s0*m0 + 6*C_s0 + 32);
        __m256 v60;
        v60 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 6*C_s0 + 48);
        __m512 v61;
        v61 = _mm512_zextps256_ps512(v60);
        __m512 v62;
        v62 = _mm512_loadu_ps(C + 13*C_s0*m0 + 7*C_s0 + 32);
        __m256 v63;
        v63 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 7*C_s0 + 48);
        __m512 v64;
        v64 = _mm512_zextps256_ps512(v63);
        __m512 v65;
        v65 = _mm512_loadu_ps(C + 13*C_s0*m0 + 8*C_s0 + 32);
        __m256 v66;
        v66 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 8*C_s0 + 48);
        __m512 v67;
        v67 = _mm512_zextps256_ps512(v66);
        __m512 v68;
        v68 = _mm512_loadu_ps(C + 13*C_s0*m0 + 9*C_s0 + 32);
        __m256 v69;
        v69 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 9*C_s0 + 48);
        __m512 v70;
        v70 = _mm512_zextps256_ps512(v69);
        __m512 v71;
        v71 = _mm512_loadu_ps(C + 13*C_s0*m0 + 10*C_s0 + 32);
        __m256 v72;
        v72 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 10*C_s0 + 48);
        __m512 v73;
        v73 = _mm512_zextps256_ps512(v72);
        __m512 v74;
        v74 = _mm512_loadu_ps(C + 13*C_s0*m0 + 11*C_s0 + 32);
        __m256 v75;
        v75 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 11*C_s0 + 48);
        __m512 v76;
        v76 = _mm512_zextps256_ps512(v75);
        __m512 v77;
        v77 = _mm512_loadu_ps(C + 13*C_s0*m0 + 12*C_s0 + 32);
        __m256 v78;
        v78 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 13*C_s0*m0 + 12*C_s0 + 48);
        __m512 v79;
        v79 = _mm512_zextps256_ps512(v78);
        for (int64_t k1 = 0; k1 < 48; k1++) {
          __m512 v80;
          v80 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + k1)));
          __m512 v81;
          v81 = _mm512_loadu_ps(B + B_s0*k1 + 32);
          READ_ONCE(v81);
          v41 = _mm512_fmadd_ps(v80, v81, v41);
          __m256 v82;
          v82 = _mm256_maskz_loadu_ps((__mmask8)0x3u, B + B_s0*k1 + 48);
          __m512 v83;
          v83 = _mm512_zextps256_ps512(v82);
          v43 = _mm512_fmadd_ps(v80, v83, v43);
          LAST_USE(v80, v43);
          __m512 v84;
          v84 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + A_s0 + k1)));
          v44 = _mm512_fmadd_ps(v84, v81, v44);
          v46 = _mm512_fmadd_ps(v84, v83, v46);
          LAST_USE(v84, v46);
          __m512 v85;
          v85 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 2*A_s0 + k1)));
          v47 = _mm512_fmadd_ps(v85, v81, v47);
          v49 = _mm512_fmadd_ps(v85, v83, v49);
          LAST_USE(v85, v49);
          __m512 v86;
          v86 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 3*A_s0 + k1)));
          v50 = _mm512_fmadd_ps(v86, v81, v50);
          v52 = _mm512_fmadd_ps(v86, v83, v52);
          LAST_USE(v86, v52);
          __m512 v87;
          v87 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 4*A_s0 + k1)));
          v53 = _mm512_fmadd_ps(v87, v81, v53);
          v55 = _mm512_fmadd_ps(v87, v83, v55);
          LAST_USE(v87, v55);
          __m512 v88;
          v88 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 5*A_s0 + k1)));
          v56 = _mm512_fmadd_ps(v88, v81, v56);
          v58 = _mm512_fmadd_ps(v88, v83, v58);
          LAST_USE(v88, v58);
          __m512 v89;
          v89 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 6*A_s0 + k1)));
          v59 = _mm512_fmadd_ps(v89, v81, v59);
          v61 = _mm512_fmadd_ps(v89, v83, v61);
          LAST_USE(v89, v61);
          __m512 v90;
          v90 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 7*A_s0 + k1)));
          v62 = _mm512_fmadd_ps(v90, v81, v62);
          v64 = _mm512_fmadd_ps(v90, v83, v64);
          LAST_USE(v90, v64);
          __m512 v91;
          v91 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 8*A_s0 + k1)));
          v65 = _mm512_fmadd_ps(v91, v81, v65);
          v67 = _mm512_fmadd_ps(v91, v83, v67);
          LAST_USE(v91, v67);
          __m512 v92;
          v92 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 9*A_s0 + k1)));
          v68 = _mm512_fmadd_ps(v92, v81, v68);
          v70 = _mm512_fmadd_ps(v92, v83, v70);
          LAST_USE(v92, v70);
          __m512 v93;
          v93 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 10*A_s0 + k1)));
          v71 = _mm512_fmadd_ps(v93, v81, v71);
          v73 = _mm512_fmadd_ps(v93, v83, v73);
          LAST_USE(v93, v73);
          __m512 v94;
          v94 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 11*A_s0 + k1)));
          v74 = _mm512_fmadd_ps(v94, v81, v74);
          v76 = _mm512_fmadd_ps(v94, v83, v76);
          LAST_USE(v94, v76);
          __m512 v95;
          v95 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 13*A_s0*m0 + 12*A_s0 + k1)));
          v77 = _mm512_fmadd_ps(v95, v81, v77);
          LAST_USE(v81, v77);
          v79 = _mm512_fmadd_ps(v95, v83, v79);
          LAST_USE(v83, v79);
          LAST_USE(v95, v79);
        }
        _mm512_storeu_ps(C + 13*C_s0*m0 + 32, v41);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 48, (__mmask16)0x3u, v43);
        _mm512_storeu_ps(C + 13*C_s0*m0 + C_s0 + 32, v44);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + C_s0 + 48, (__mmask16)0x3u, v46);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 2*C_s0 + 32, v47);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 2*C_s0 + 48, (__mmask16)0x3u, v49);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 3*C_s0 + 32, v50);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 3*C_s0 + 48, (__mmask16)0x3u, v52);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 4*C_s0 + 32, v53);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 4*C_s0 + 48, (__mmask16)0x3u, v55);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 5*C_s0 + 32, v56);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 5*C_s0 + 48, (__mmask16)0x3u, v58);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 6*C_s0 + 32, v59);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 6*C_s0 + 48, (__mmask16)0x3u, v61);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 7*C_s0 + 32, v62);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 7*C_s0 + 48, (__mmask16)0x3u, v64);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 8*C_s0 + 32, v65);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 8*C_s0 + 48, (__mmask16)0x3u, v67);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 9*C_s0 + 32, v68);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 9*C_s0 + 48, (__mmask16)0x3u, v70);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 10*C_s0 + 32, v71);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 10*C_s0 + 48, (__mmask16)0x3u, v73);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 11*C_s0 + 32, v74);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 11*C_s0 + 48, (__mmask16)0x3u, v76);
        _mm512_storeu_ps(C + 13*C_s0*m0 + 12*C_s0 + 32, v77);
        _mm512_mask_storeu_ps(C + 13*C_s0*m0 + 12*C_s0 + 48, (__mmask16)0x3u, v79);
      }
    }
    { /* hold c */
      __m512 v96;
      v96 = _mm512_loadu_ps(C + 26*C_s0);
      __m512 v97;
      v97 = _mm512_loadu_ps(C + 26*C_s0 + 16);
      __m512 v98;
      v98 = _mm512_loadu_ps(C + 27*C_s0);
      __m512 v99;
      v99 = _mm512_loadu_ps(C + 27*C_s0 + 16);
      __m512 v100;
      v100 = _mm512_loadu_ps(C + 28*C_s0);
      __m512 v101;
      v101 = _mm512_loadu_ps(C + 28*C_s0 + 16);
      __m512 v102;
      v102 = _mm512_loadu_ps(C + 29*C_s0);
      __m512 v103;
      v103 = _mm512_loadu_ps(C + 29*C_s0 + 16);
      __m512 v104;
      v104 = _mm512_loadu_ps(C + 30*C_s0);
      __m512 v105;
      v105 = _mm512_loadu_ps(C + 30*C_s0 + 16);
      __m512 v106;
      v106 = _mm512_loadu_ps(C + 31*C_s0);
      __m512 v107;
      v107 = _mm512_loadu_ps(C + 31*C_s0 + 16);
      __m512 v108;
      v108 = _mm512_loadu_ps(C + 32*C_s0);
      __m512 v109;
      v109 = _mm512_loadu_ps(C + 32*C_s0 + 16);
      __m512 v110;
      v110 = _mm512_loadu_ps(C + 33*C_s0);
      __m512 v111;
      v111 = _mm512_loadu_ps(C + 33*C_s0 + 16);
      __m512 v112;
      v112 = _mm512_loadu_ps(C + 34*C_s0);
      __m512 v113;
      v113 = _mm512_loadu_ps(C + 34*C_s0 + 16);
      __m512 v114;
      v114 = _mm512_loadu_ps(C + 35*C_s0);
      __m512 v115;
      v115 = _mm512_loadu_ps(C + 35*C_s0 + 16);
      __m512 v116;
      v116 = _mm512_loadu_ps(C + 36*C_s0);
      __m512 v117;
      v117 = _mm512_loadu_ps(C + 36*C_s0 + 16);
      for (int64_t k2 = 0; k2 < 48; k2++) {
        __m512 v118;
        v118 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 26*A_s0 + k2)));
        __m512 v119;
        v119 = _mm512_loadu_ps(B + B_s0*k2);
        READ_ONCE(v119);
        v96 = _mm512_fmadd_ps(v118, v119, v96);
        __m512 v120;
        v120 = _mm512_loadu_ps(B + B_s0*k2 + 16);
        READ_ONCE(v120);
        v97 = _mm512_fmadd_ps(v118, v120, v97);
        LAST_USE(v118, v97);
        __m512 v121;
        v121 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 27*A_s0 + k2)));
        v98 = _mm512_fmadd_ps(v121, v119, v98);
        v99 = _mm512_fmadd_ps(v121, v120, v99);
        LAST_USE(v121, v99);
        __m512 v122;
        v122 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 28*A_s0 + k2)));
        v100 = _mm512_fmadd_ps(v122, v119, v100);
        v101 = _mm512_fmadd_ps(v122, v120, v101);
        LAST_USE(v122, v101);
        __m512 v123;
        v123 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 29*A_s0 + k2)));
        v102 = _mm512_fmadd_ps(v123, v119, v102);
        v103 = _mm512_fmadd_ps(v123, v120, v103);
        LAST_USE(v123, v103);
        __m512 v124;
        v124 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 30*A_s0 + k2)));
        v104 = _mm512_fmadd_ps(v124, v119, v104);
        v105 = _mm512_fmadd_ps(v124, v120, v105);
        LAST_USE(v124, v105);
        __m512 v125;
        v125 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 31*A_s0 + k2)));
        v106 = _mm512_fmadd_ps(v125, v119, v106);
        v107 = _mm512_fmadd_ps(v125, v120, v107);
        LAST_USE(v125, v107);
        __m512 v126;
        v126 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 32*A_s0 + k2)));
        v108 = _mm512_fmadd_ps(v126, v119, v108);
        v109 = _mm512_fmadd_ps(v126, v120, v109);
        LAST_USE(v126, v109);
        __m512 v127;
        v127 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 33*A_s0 + k2)));
        v110 = _mm512_fmadd_ps(v127, v119, v110);
        v111 = _mm512_fmadd_ps(v127, v120, v111);
        LAST_USE(v127, v111);
        __m512 v128;
        v128 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 34*A_s0 + k2)));
        v112 = _mm512_fmadd_ps(v128, v119, v112);
        v113 = _mm512_fmadd_ps(v128, v120, v113);
        LAST_USE(v128, v113);
        __m512 v129;
        v129 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 35*A_s0 + k2)));
        v114 = _mm512_fmadd_ps(v129, v119, v114);
        v115 = _mm512_fmadd_ps(v129, v120, v115);
        LAST_USE(v129, v115);
        __m512 v130;
        v130 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 36*A_s0 + k2)));
        v116 = _mm512_fmadd_ps(v130, v119, v116);
        LAST_USE(v119, v116);
        v117 = _mm512_fmadd_ps(v130, v120, v117);
        LAST_USE(v120, v117);
        LAST_USE(v130, v117);
      }
      _mm512_storeu_ps(C + 26*C_s0, v96);
      _mm512_storeu_ps(C + 26*C_s0 + 16, v97);
      _mm512_storeu_ps(C + 27*C_s0, v98);
      _mm512_storeu_ps(C + 27*C_s0 + 16, v99);
      _mm512_storeu_ps(C + 28*C_s0, v100);
      _mm512_storeu_ps(C + 28*C_s0 + 16, v101);
      _mm512_storeu_ps(C + 29*C_s0, v102);
      _mm512_storeu_ps(C + 29*C_s0 + 16, v103);
      _mm512_storeu_ps(C + 30*C_s0, v104);
      _mm512_storeu_ps(C + 30*C_s0 + 16, v105);
      _mm512_storeu_ps(C + 31*C_s0, v106);
      _mm512_storeu_ps(C + 31*C_s0 + 16, v107);
      _mm512_storeu_ps(C + 32*C_s0, v108);
      _mm512_storeu_ps(C + 32*C_s0 + 16, v109);
      _mm512_storeu_ps(C + 33*C_s0, v110);
      _mm512_storeu_ps(C + 33*C_s0 + 16, v111);
      _mm512_storeu_ps(C + 34*C_s0, v112);
      _mm512_storeu_ps(C + 34*C_s0 + 16, v113);
      _mm512_storeu_ps(C + 35*C_s0, v114);
      _mm512_storeu_ps(C + 35*C_s0 + 16, v115);
      _mm512_storeu_ps(C + 36*C_s0, v116);
      _mm512_storeu_ps(C + 36*C_s0 + 16, v117);
    }
    { /* hold c */
      __m512 v131;
      v131 = _mm512_loadu_ps(C + 26*C_s0 + 32);
      __m256 v132;
      v132 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 26*C_s0 + 48);
      __m512 v133;
      v133 = _mm512_zextps256_ps512(v132);
      __m512 v134;
      v134 = _mm512_loadu_ps(C + 27*C_s0 + 32);
      __m256 v135;
      v135 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 27*C_s0 + 48);
      __m512 v136;
      v136 = _mm512_zextps256_ps512(v135);
      __m512 v137;
      v137 = _mm512_loadu_ps(C + 28*C_s0 + 32);
      __m256 v138;
      v138 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 28*C_s0 + 48);
      __m512 v139;
      v139 = _mm512_zextps256_ps512(v138);
      __m512 v140;
      v140 = _mm512_loadu_ps(C + 29*C_s0 + 32);
      __m256 v141;
      v141 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 29*C_s0 + 48);
      __m512 v142;
      v142 = _mm512_zextps256_ps512(v141);
      __m512 v143;
      v143 = _mm512_loadu_ps(C + 30*C_s0 + 32);
      __m256 v144;
      v144 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 30*C_s0 + 48);
      __m512 v145;
      v145 = _mm512_zextps256_ps512(v144);
      __m512 v146;
      v146 = _mm512_loadu_ps(C + 31*C_s0 + 32);
      __m256 v147;
      v147 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 31*C_s0 + 48);
      __m512 v148;
      v148 = _mm512_zextps256_ps512(v147);
      __m512 v149;
      v149 = _mm512_loadu_ps(C + 32*C_s0 + 32);
      __m256 v150;
      v150 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 32*C_s0 + 48);
      __m512 v151;
      v151 = _mm512_zextps256_ps512(v150);
      __m512 v152;
      v152 = _mm512_loadu_ps(C + 33*C_s0 + 32);
      __m256 v153;
      v153 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 33*C_s0 + 48);
      __m512 v154;
      v154 = _mm512_zextps256_ps512(v153);
      __m512 v155;
      v155 = _mm512_loadu_ps(C + 34*C_s0 + 32);
      __m256 v156;
      v156 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 34*C_s0 + 48);
      __m512 v157;
      v157 = _mm512_zextps256_ps512(v156);
      __m512 v158;
      v158 = _mm512_loadu_ps(C + 35*C_s0 + 32);
      __m256 v159;
      v159 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 35*C_s0 + 48);
      __m512 v160;
      v160 = _mm512_zextps256_ps512(v159);
      __m512 v161;
      v161 = _mm512_loadu_ps(C + 36*C_s0 + 32);
      __m256 v162;
      v162 = _mm256_maskz_loadu_ps((__mmask8)0x3u, C + 36*C_s0 + 48);
      __m512 v163;
      v163 = _mm512_zextps256_ps512(v162);
      for (int64_t k3 = 0; k3 < 48; k3++) {
        __m512 v164;
        v164 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 26*A_s0 + k3)));
        __m512 v165;
        v165 = _mm512_loadu_ps(B + B_s0*k3 + 32);
        READ_ONCE(v165);
        v131 = _mm512_fmadd_ps(v164, v165, v131);
        __m256 v166;
        v166 = _mm256_maskz_loadu_ps((__mmask8)0x3u, B + B_s0*k3 + 48);
        __m512 v167;
        v167 = _mm512_zextps256_ps512(v166);
        v133 = _mm512_fmadd_ps(v164, v167, v133);
        LAST_USE(v164, v133);
        __m512 v168;
        v168 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 27*A_s0 + k3)));
        v134 = _mm512_fmadd_ps(v168, v165, v134);
        v136 = _mm512_fmadd_ps(v168, v167, v136);
        LAST_USE(v168, v136);
        __m512 v169;
        v169 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 28*A_s0 + k3)));
        v137 = _mm512_fmadd_ps(v169, v165, v137);
        v139 = _mm512_fmadd_ps(v169, v167, v139);
        LAST_USE(v169, v139);
        __m512 v170;
        v170 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 29*A_s0 + k3)));
        v140 = _mm512_fmadd_ps(v170, v165, v140);
        v142 = _mm512_fmadd_ps(v170, v167, v142);
        LAST_USE(v170, v142);
        __m512 v171;
        v171 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 30*A_s0 + k3)));
        v143 = _mm512_fmadd_ps(v171, v165, v143);
        v145 = _mm512_fmadd_ps(v171, v167, v145);
        LAST_USE(v171, v145);
        __m512 v172;
        v172 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 31*A_s0 + k3)));
        v146 = _mm512_fmadd_ps(v172, v165, v146);
        v148 = _mm512_fmadd_ps(v172, v167, v148);
        LAST_USE(v172, v148);
        __m512 v173;
        v173 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 32*A_s0 + k3)));
        v149 = _mm512_fmadd_ps(v173, v165, v149);
        v151 = _mm512_fmadd_ps(v173, v167, v151);
        LAST_USE(v173, v151);
        __m512 v174;
        v174 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 33*A_s0 + k3)));
        v152 = _mm512_fmadd_ps(v174, v165, v152);
        v154 = _mm512_fmadd_ps(v174, v167, v154);
        LAST_USE(v174, v154);
        __m512 v175;
        v175 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 34*A_s0 + k3)));
        v155 = _mm512_fmadd_ps(v175, v165, v155);
        v157 = _mm512_fmadd_ps(v175, v167, v157);
        LAST_USE(v175, v157);
        __m512 v176;
        v176 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 35*A_s0 + k3)));
        v158 = _mm512_fmadd_ps(v176, v165, v158);
        v160 = _mm512_fmadd_ps(v176, v167, v160);
        LAST_USE(v176, v160);
        __m512 v177;
        v177 = _mm512_castsi512_ps(_mm512_broadcastd_epi32(_mm_loadu_si32(A + 36*A_s0 + k3)));
        v161 = _mm512_fmadd_ps(v177, v165, v161);
        LAST_USE(v165, v161);
        v163 = _mm512_fmadd_ps(v177, v167, v163);
        LAST_USE(v167, v163);
        LAST_USE(v177, v163);
      }
      _mm512_storeu_ps(C + 26*C_s0 + 32, v131);
      _mm512_mask_storeu_ps(C + 26*C_s0 + 48, (__mmask16)0x3u, v133);
      _mm512_storeu_ps(C + 27*C_s0 + 32, v134);
      _mm512_mask_storeu_ps(C + 27*C_s0 + 48, (__mmask16)0x3u, v136);
      _mm512_storeu_ps(C + 28*C_s0 + 32, v137);
      _mm512_mask_storeu_ps(C + 28*C_s0 + 48, (__mmask16)0x3u, v139);
      _mm512_storeu_ps(C + 29*C_s0 + 32, v140);
      _mm512_mask_storeu_ps(C + 29*C_s0 + 48, (__mmask16)0x3u, v142);
      _mm512_storeu_ps(C + 30*C_s0 + 32, v143);
      _mm512_mask_storeu_ps(C + 30*C_s0 + 48, (__mmask16)0x3u, v145);
      _mm512_storeu_ps(C + 31*C_s0 + 32, v146);
      _mm512_mask_storeu_ps(C + 31*C_s0 + 48, (__mmask16)0x3u, v148);
      _mm512_storeu_ps(C + 32*C_s0 + 32, v149);
      _mm512_mask_storeu_ps(C + 32*C_s0 + 48, (__mmask16)0x3u, v151);
      _mm512_storeu_ps(C + 33*C_s0 + 32, v152);
      _mm512_mask_storeu_ps(C + 33*C_s0 + 48, (__mmask16)0x3u, v154);
      _mm512_storeu_ps(C + 34*C_s0 + 32, v155);
      _mm512_mask_storeu_ps(C + 34*C_s0 + 48, (__mmask16)0x3u, v157);
      _mm512_storeu_ps(C + 35*C_s0 + 32, v158);
      _mm512_mask_storeu_ps(C + 35*C_s0 + 48, (__mmask16)0x3u, v160);
      _mm512_storeu_ps(C + 36*C_s0 + 32, v161);
      _mm512_mask_storeu_ps(C + 36*C_s0 + 48, (__mmask16)0x3u, v163);
    }
  }
}

static __attribute__((noinline)) void gemm_f32_dense(
    const float *restrict A,
    const float *restrict B,
    float *restrict C) {
  gemm_f32_body(A, B, C, 48, 50, 50);
}

static __attribute__((noinline)) void gemm_f32_strided(
    const float *restrict A,
    const float *restrict B,
    float *restrict C,
    int64_t A_s0,
    int64_t B_s0,
    int64_t C_s0) {
  gemm_f32_body(A, B, C, A_s0, B_s0, C_s0);
}

size_t gemm_f32_workspace_bytes(const gemm_f32_args *args) {
  (void)args;
  return 0;
}

int gemm_f32(const gemm_f32_args *args, void *workspace, gemm_f32_pool *pool) {
  (void)workspace;
  if (args == NULL || args->A == NULL || args->B == NULL || args->C == NULL) return gemm_f32_NULL_POINTER;
  if (pool != NULL) return gemm_f32_POOL_NOT_NULL;
  if (args->A_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t A_s0 = args->A_stride0 / 4;
  if (args->B_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t B_s0 = args->B_stride0 / 4;
  if (args->C_stride0 % 4 != 0) return gemm_f32_BAD_STRIDE;
  int64_t C_s0 = args->C_stride0 / 4;
  if (C_s0 < 50 && C_s0 > -50) return gemm_f32_BAD_STRIDE;
  if (A_s0 == 48 && B_s0 == 50 && C_s0 == 50) {
    gemm_f32_dense(args->A, args->B, args->C);
  } else {
    gemm_f32_strided(args->A, args->B, args->C, A_s0, B_s0, C_s0);
  }
  return gemm_f32_OK;
}
