/* keygen.h - penstock peers keygen: certificates for the nodes of a fleet.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_KEYGEN_H
#define CLI_KEYGEN_H

#include "cli/cli.h"

#define KEYGEN_OPTIONS                                                                            \
    { "--node", "NAME", "keygen: write NAME.pem; the default is node.pem, one certificate for all "  \
                        "nodes" },                                                                \
    { "--days", "N", "keygen: the certificate is valid for so long; the default is 365" }
#define KEYGEN_MORE                                                                               \
    "keygen makes a CA in FOLDER, and a certificate with its key for the nodes of the\n"          \
    "fleet. If FOLDER has a CA of keygen already, it makes only the certificate. It\n"            \
    "never overwrites a file, and says what to copy and which settings to set."

/* Runs after the word keygen. Returns the exit status. */
int keygen_run(struct cli *cli);

#endif
