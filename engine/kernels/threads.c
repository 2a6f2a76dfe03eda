#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

#define MOST_WORKERS 63
#define SPINS 1500 /* about 50 us: longer than the gap between two operators, shorter than the gap between two steps */

static struct {
    Work work;
    void *context;
    int64_t tasks;
    _Atomic int64_t next;    /* the first task nobody has taken */
    atomic_int open, inside; /* may be joined; workers that have joined */
} job;

static atomic_uint calls; /* changes with every job; sleepers wait for it to */
static atomic_int asleep;
static int workers;
static pthread_mutex_t owner = PTHREAD_MUTEX_INITIALIZER, sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

static void take_tasks(void) {
    int64_t task;
    while ((task = atomic_fetch_add(&job.next, 1)) < job.tasks) job.work(job.context, task);
}

static void *serve(void *unused) {
    (void)unused;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load(&calls) == seen; i++) PAUSE();
        if (atomic_load(&calls) == seen) {
            pthread_mutex_lock(&sleep_lock);
            atomic_fetch_add(&asleep, 1);
            while (atomic_load(&calls) == seen) pthread_cond_wait(&wake, &sleep_lock);
            atomic_fetch_sub(&asleep, 1);
            pthread_mutex_unlock(&sleep_lock);
        }
        seen = atomic_load(&calls);
        /* Join first and look after: the caller closes first and counts after, so one of the two sees the other. */
        atomic_fetch_add(&job.inside, 1);
        if (atomic_load(&job.open)) take_tasks();
        atomic_fetch_sub(&job.inside, 1);
    }
    return NULL;
}

/* A forked child has none of the workers; it starts its own. */
static void forget_workers(void) {
    workers = 0;
    atomic_store(&asleep, 0);
    atomic_store(&job.inside, 0);
    atomic_store(&job.open, 0);
    pthread_mutex_init(&owner, NULL);
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&wake, NULL);
}

static void hire(int wanted) {
    static int prepared = 0;
    if (!prepared) prepared = pthread_atfork(NULL, NULL, forget_workers) == 0;
    while (workers < wanted && workers < MOST_WORKERS) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL)) return; /* fewer workers: slower, not wrong */
        pthread_detach(thread);
        workers++;
    }
}

void run_tasks(int threads, int64_t tasks, Work work, void *context) {
    /* A second caller at the same time works alone. */
    if (threads < 2 || tasks < 2 || pthread_mutex_trylock(&owner)) {
        for (int64_t task = 0; task < tasks; task++) work(context, task);
        return;
    }
    hire(threads - 1);
    job.work = work, job.context = context, job.tasks = tasks;
    atomic_store(&job.next, 0);
    atomic_store(&job.open, 1);
    atomic_fetch_add(&calls, 1);
    if (atomic_load(&asleep)) {
        pthread_mutex_lock(&sleep_lock);
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&sleep_lock);
    }
    take_tasks();
    atomic_store(&job.open, 0);
    for (int i = 0; atomic_load(&job.inside); i++)
        if (i < SPINS)
            PAUSE();
        else
            sched_yield();
    pthread_mutex_unlock(&owner);
}
