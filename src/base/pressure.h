/* pressure.h - how much programs wait for memory. SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PRESSURE_H
#define BASE_PRESSURE_H

#include "base/base.h"

/* Returns the share of the last 10 s in which some thread waited for memory, in per cent: on this
 * machine, or in a control group that this process is in, whichever is more. 0 if the kernel does
 * not tell (without PSI). Reads files. `root` is "", except in tests. */
unsigned memory_pressure(const char *root) MUST_USE;

#endif
