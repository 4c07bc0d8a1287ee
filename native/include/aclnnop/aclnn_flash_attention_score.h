// Attention: softmax(mask(scale * query @ key^T)) @ value, of each head of each sequence.
#pragma once

#include "aclnn/aclnn_base.h"

// B: sequences, S: positions of the query, T: those of the key, N: heads of the query, M: heads of the key, each of
// which N / M heads of the query share, D: size of a head.
//
// query              (B, N, S, D) if inputLayout is BNSD, (B, S, N, D) if BSND, (B, S, N * D) if BSH, (S, B, N * D) if
//                    SBH
// key                the same with M heads and T positions
// value              shaped as key, with heads of at most D
// realShiftOptional  null, or what is added to the products of query and key before they are scaled: (B, N, S, T),
//                    (1, N, S, T) or (B, N, 1, T)
// dropMaskOptional   bits of the scores that are kept; null if keepProb is 1
// paddingMaskOptional null
// attenMaskOptional  null, or BOOL or UINT8 with 1 where a score is masked out: (B, N, S, T), (B, 1, S, T),
//                    (1, 1, S, T) or (S, T); the strict upper triangle of (2048, 2048) if sparseMode is 2, 3 or 4
// prefixOptional     null or empty unless sparseMode is 5 or 6
// scaleValue         what products are multiplied by
// keepProb           the share of scores that dropout keeps
// preTokens          how far before its own position a query sees keys, if sparseMode is 0 or 4
// nextTokens         and how far behind it
// headNum            N
// inputLayout        the order of the axes
// innerPrecise       2: of rows without a score that is not masked out the result is 0
// sparseMode         0: as preTokens and nextTokens say, 1: the whole mask, 2: keys up to the query's position counted
//                    from the first, 3: counted from the last, 4: a band
// softmaxMaxOut      (B, N, S, 8), FLOAT: the largest score of each row, eight times
// softmaxSumOut      (B, N, S, 8), FLOAT: the sum of the exponentials of its scores less the largest, eight times
// softmaxOutOut      not used, may be null
// attentionOutOut    shaped as query, with the heads of value
ACLNN_API aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                               const aclrtStream stream);

// qStartIdxOptional   null or empty unless pseType is 2 or 3
// kvStartIdxOptional  the same
// pseType             0: realShift is added to the scaled products; 1: before they are scaled; 2, 3: it has slopes
ACLNN_API aclnnStatus aclnnFlashAttentionScoreV2GetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, const aclIntArray* qStartIdxOptional, const aclIntArray* kvStartIdxOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, int64_t pseType, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor);
ACLNN_API aclnnStatus aclnnFlashAttentionScoreV2(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                                 const aclrtStream stream);
