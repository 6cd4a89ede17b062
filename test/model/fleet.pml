/*
 * The protocol of the shared record of one owner: three replicas call for its token at once, while one of them may die at any
 * step, a lease may run out under a leader that is alive, a reply may be lost, Redis may lose its data or go back to an older
 * state, a replica may reject the token, and the owner may be forgotten. `src/redis/record-scripts.ts` and `shared-call.ts` are what it models.
 *
 * Checked in every state that can be reached:
 *
 * - the service gets one request, and one more for each thing that went wrong
 * - a late token replaces no newer one
 * - no call gets a token that its replica has rejected
 * - what was requested before the owner was forgotten is neither stored nor shared
 * - every call of a living replica ends
 *
 * Each of NO_FENCE, NO_LEASE, NO_AVOID, NO_EXPIRY, NO_MEMORY and ONE_PATIENCE takes a rule out: the model must notice.
 */

#define N 3

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef SLOW
#define SLOW 1
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef FLUSHES
#define FLUSHES 1
#endif
#ifndef REJECTIONS
#define REJECTIONS 1
#endif
#ifndef RESTORES
#define RESTORES 1
#endif
#ifndef FORGETS
#define FORGETS 1
#endif

/* For as many leases that run out a call waits: each is twice as long as the one before (`leases.pml`). */
#ifdef ONE_PATIENCE
#define PATIENCE 1
#else
#define PATIENCE 3
#endif

/* The record. Generations are times; 0 stands for nothing stored. */
byte now = 1, stored = 0, fence = 0, holder = 0, forgotten = 0;

byte crashes = CRASHES, slow = SLOW, lost = LOST, flushes = FLUSHES, rejections = REJECTIONS;
byte restores = RESTORES, replaced = 0, forgets = FORGETS, gone = 0;
byte requests = 0, excuses = 0, ranOut = 0, rejected = 0;
bool isDead[N], isOnItsWay[N], isLeaseless[N];
byte sent[N];

#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline request() {
  requests++;
  assert(requests <= 1 + excuses)
}

/* Not awaited by the caller: it takes effect at any later time, if the replica lives until it is sent. */
inline publish(i, generation, leaseless) {
  isOnItsWay[i] = true;
  isLeaseless[i] = leaseless;
  sent[i] = generation
}

proctype Replica(byte i) {
  byte avoid = 0, got = 0, generation = 0, followed = 0, ranOutBefore = 0;

call:
  /* The publication of its last call has arrived: a replica sends in order. */
  !isOnItsWay[i];
  ranOutBefore = ranOut;

acquire:
  atomic {
    if
    :: lost > 0 ->
      /* The reply is lost, or there was no time for it. The lease may have been taken. */
      lost--; excuses++;
      if
      :: holder == 0 && stored <= avoid -> holder = i + 1; fence = MAX(MAX(now, fence + 1), MAX(MAX(stored, forgotten), avoid) + 1); now++
      :: true
      fi;
      goto alone
    :: true
    fi;
    if
    :: stored > 0 && stored == rejected && rejected == avoid -> replaced = stored; stored = 0
    :: else
    fi;
    if
#ifdef NO_AVOID
    :: stored > 0 ->
#else
    :: stored > avoid ->
#endif
      got = stored; assert(got > gone); goto served
    :: else
    fi;
#ifndef NO_LEASE
    if
    :: holder != 0 && holder != i + 1 ->
      if
      :: ranOut - ranOutBefore >= PATIENCE -> goto alone
      :: else -> followed = fence; goto follow
      fi
    :: else
    fi;
#endif
    fence = MAX(MAX(now, fence + 1), MAX(MAX(stored, forgotten), avoid) + 1);
    now++;
    holder = i + 1;
    generation = fence;
    goto lead
  }

follow:
  /* Woken, or the time of the lease is up. */
  holder == 0 || fence != followed || stored > avoid;
  goto acquire;

lead:
  atomic { request() };
  if
  :: atomic { crashes > 0 -> crashes--; excuses++; isDead[i] = true; goto dead }
  :: atomic { got = generation; publish(i, generation, false); goto served }
  /* Its own request goes on. */
  :: atomic { stored > avoid -> got = stored; publish(i, generation, false); goto served }
  fi;

alone:
  atomic { request(); generation = now; now++ };
  if
  :: atomic { crashes > 0 -> crashes--; excuses++; isDead[i] = true; goto dead }
  :: atomic { got = generation; publish(i, generation, true) }
  fi;

served:
  assert(got > avoid);
  if
  /* A 401 with this token. */
  :: atomic { rejections > 0 -> rejections--; excuses++; avoid = got; rejected = MAX(rejected, got) }; goto call
  /* News of a rejection elsewhere. */
  :: atomic { rejected >= got -> avoid = rejected }; goto call
  /* The owner was forgotten elsewhere. */
  :: atomic { gone >= got -> avoid = gone }; goto call
  :: true
  fi;

dead:
  atomic { avoid = 0; got = 0; generation = 0; followed = 0; ranOutBefore = 0 }
}

inline arrive(i) {
  isOnItsWay[i] = false;
  if
  :: holder == i + 1 -> holder = 0
  :: else
  fi;
  if
#ifdef NO_FENCE
  :: !(isLeaseless[i] && stored > 0) -> assert(sent[i] > stored); stored = sent[i]
#else
  :: sent[i] > MAX(stored, forgotten) && !(isLeaseless[i] && stored > 0) -> assert(sent[i] > gone); stored = sent[i]
#endif
  :: else
  fi;
  sent[i] = 0;
  isLeaseless[i] = false
}

/* Redis, and time. */
proctype Redis() {
end:
  do
  :: atomic { isOnItsWay[0] -> arrive(0) }
  :: atomic { isOnItsWay[1] -> arrive(1) }
  :: atomic { isOnItsWay[2] -> arrive(2) }
#ifndef NO_EXPIRY
  :: atomic { holder != 0 && isDead[holder - 1] -> holder = 0; ranOut++ }
#endif
  :: atomic { holder != 0 && !isDead[holder - 1] && slow > 0 -> slow--; excuses++; holder = 0; ranOut++ }
  :: atomic { flushes > 0 -> flushes--; excuses++; stored = 0; holder = 0; fence = 0 }
  :: atomic {
    forgets > 0 -> forgets--; excuses++;
    gone = MAX(MAX(now, fence + 1), MAX(stored, forgotten) + 1);
    now++; stored = 0; holder = 0;
#ifdef NO_MEMORY
    fence = 0
#else
    forgotten = gone
#endif
  }
  /* A backup is put back, with a token that was rejected. */
  :: atomic { restores > 0 && replaced > 0 -> restores--; excuses++; stored = replaced; holder = 0; fence = 0 }
  od
}

init {
  atomic {
    run Redis();
    run Replica(0);
    run Replica(1);
    run Replica(2)
  }
}
