/* Tasks over a few threads that know one another. Not OpenMP: its barrier waits for every thread of the team, and where
 * another process holds one core (a client, a router, a second engine) each of a step's 300 barriers costs a time slice.
 * Here the caller takes tasks like everybody else and waits only for threads that have taken one. */
#ifndef OPSCONSOLE_THREADS_H
#define OPSCONSOLE_THREADS_H

#include <stdint.h>

typedef void (*Work)(void *context, int64_t task);

/* Calls work(context, 0 .. tasks - 1), in any order, on up to `threads` threads, the caller's among them. */
void run_tasks(int threads, int64_t tasks, Work work, void *context);

#endif
