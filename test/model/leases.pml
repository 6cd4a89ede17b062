/*
 * The leases of one owner's record while the service is slow: how many replicas ask it, and how long their calls take. Unlike in
 * `fleet.pml`, time has a length here: the first lease takes two units, and time passes only when nothing else can happen.
 *
 * All replicas call twice: first the service takes SERVICE units, then none, when all requests of before have been answered. A
 * replica may die while it leads, once. Checked in every order of what happens at the same time:
 *
 * - the service gets REQUESTS requests, and then one, and one more for the death
 * - a call takes as long as the service, and one lease more for the death
 *
 * Each of NO_DOUBLING, NEVER_BACK and NO_WATCH takes a rule out: the model must notice.
 */

#define N 4
#define LAST 30

/* The record. */
byte now = 0, stored = 0, fence = 0, holder = 0, until = 0, length = 0;

byte deaths = DEATHS, died = 0;
byte service = SERVICE, allowed = REQUESTS, requests = 0, pending = 0, served = 0, unwanted = 0;
bool isSecond = false;
bool isDead[N];
byte answered[N];

/* The answer may come after the leader has taken another one's token. */
proctype Request(byte i, generation) {
  byte due = now + service;
  now >= due;
  atomic {
    if
    :: !isDead[i] ->
      if
      :: generation > stored -> stored = generation
      :: else
      fi;
      if
      :: holder == i + 1 || until <= now -> holder = 0
      :: else
      fi;
      answered[i] = generation
    :: else
    fi;
    pending--
  }
}

proctype Replica(byte i) {
  byte avoid = 0, generation = 0, started = 0;

acquire:
  atomic {
    if
    :: stored > avoid -> goto done
    :: else
    fi;
    if
    :: holder != 0 && until > now -> goto follow
    :: else
    fi;
    if
#ifdef NEVER_BACK
    :: length > 0 -> length = 2 * length
#endif
#ifndef NO_DOUBLING
    :: holder != 0 && now - until <= length -> length = 2 * length
#endif
    :: else -> length = 2
    fi;
    holder = i + 1;
    until = now + length;
    fence++;
    generation = fence;
    requests++;
    assert(requests <= allowed + died);
    pending++;
    run Request(i, generation)
  }
  if
  :: atomic { deaths > 0 -> deaths--; died++; isDead[i] = true; served++; goto end }
  :: true
  fi;
  if
  :: answered[i] == generation
#ifndef NO_WATCH
  :: stored > avoid
#endif
  fi;
  goto done;

follow:
  stored > avoid || holder == 0 || until <= now;
  goto acquire;

done:
  assert(now - started <= service + 2 * died);
  served++;
  if
  :: !isSecond -> atomic { isSecond -> avoid = unwanted; generation = 0; started = now }; goto acquire
  :: else
  fi;

end:
  skip
}

init {
  atomic {
    run Replica(0);
    run Replica(1);
    run Replica(2);
    run Replica(3)
  }
  /* The token is rejected. */
  atomic { served == N && pending == 0 -> isSecond = true; unwanted = stored; service = 0; requests = 0; allowed = 1 };
}

/* Time passes when nothing else can happen. */
active proctype Clock() {
  do
  :: timeout && now < LAST -> now++
  :: timeout && now == LAST -> break
  od
}
