/* aimd.c - the number of connections that an origin takes without SlowDown.
 * SPDX-License-Identifier: Apache-2.0 */
#include "origin/aimd.h"

void aimd_init(struct aimd *aimd, unsigned most)
{
    check(most > 0);
    *aimd = (struct aimd){ .most = most, .limit = most };
}

bool aimd_shrink(struct aimd *aimd, uint64_t now_ms)
{
    if (aimd->shrunk_ms && now_ms < aimd->shrunk_ms + AIMD_SHRINK_MS)
        return false;
    aimd_grow(aimd, now_ms);
    unsigned before = aimd->limit;
    aimd->limit = aimd->shrunk = MAX(aimd->limit / 2, 1u);
    aimd->shrunk_ms = now_ms;
    return aimd->limit < before;
}

void aimd_grow(struct aimd *aimd, uint64_t now_ms)
{
    if (aimd->limit == aimd->most || now_ms <= aimd->shrunk_ms)
        return;
    uint64_t grown = (now_ms - aimd->shrunk_ms) * aimd->most / AIMD_GROW_MS;
    aimd->limit = (unsigned)MIN(aimd->shrunk + grown, (uint64_t)aimd->most);
}

void aimd_restore(struct aimd *aimd)
{
    aimd->limit = aimd->most;
}
