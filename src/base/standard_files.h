/* SPDX-License-Identifier: MIT */
/*
 * standard_files.h - standard input, output and error of a program that may be started without them. Called first of all by each program of ours that opens files.
 */
#pragma once

/*
 * Keep the places of standard input, output and error where they are closed: else the next file that is opened takes one, and what is said
 * goes into it (a message into the CSV, an answer into a socket).
 */
void uma_standard_files_guard(void);
