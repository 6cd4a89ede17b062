/**
 * The shared record: one hash for each owner, one for the endpoint, and every operation one script over one key, so
 * that standalone, sentinel and cluster work alike. Each answers `[what, now, …]`, all strings.
 *
 * All time is the server's (`TIME`, in microseconds), so the replicas' clocks cannot matter. A generation is
 * max(now, stored + 1): at once the fence of a lease, the version of a token and the name by which it is rejected. It
 * grows across eviction and FLUSHALL, which a counter does not.
 *
 * | field | holds |
 * |---|---|
 * | `v` `g` `u` `p` | sealed token, its generation, usable until, published at |
 * | `h` `l` `n` `s` | lease: the flight that holds it, until when, its generation, since when |
 * | `f` `x` `c` | failure, until when it stands, how many in a row |
 * | `r` | fresh tokens rejected in a row |
 * | `k` `b` | endpoint only: owners whose requests failed in a row, after what scope that would be; failing since |
 *
 * A field that cannot be what we wrote counts as absent: a moment too far ahead, a number that is none. A key of
 * another type is deleted; its name is ours alone.
 */

import { createHash } from 'node:crypto';

/** A Lua script over one key. */
export interface RecordScript {
  readonly name: string;
  readonly source: string;
  /** What EVALSHA calls it. */
  readonly sha: string;
}

/** The longest that a token is shared, whatever its lifetime: keys of owners who left must not stay for ever. */
export const MAX_SHARED_MS = 7 * 86_400_000;

/** How long a record is kept beyond all that it says: counts and generations are remembered so long. */
export const MEMORY_MS = 600_000;

/** Bounds of what a field may say lies ahead; more is damage. */
export const MAX_AHEAD_MS = {
  generation: 86_400_000,
  token: MAX_SHARED_MS,
  lease: 120_000,
  failure: 3_600_000,
} as const;

const PROLOGUE = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(n) return string.format('%.0f', n) end
local function number(field, aheadMs)
  local n = tonumber(field or 0) or 0
  if n >= 0 and n <= now + aheadMs * 1000 then return n end
  return 0
end
local m = redis.pcall('HMGET', KEYS[1], 'v', 'g', 'u', 'p', 'h', 'l', 'n', 's', 'f', 'x', 'c', 'r', 'k', 'b')
if m.err then
  redis.call('DEL', KEYS[1])
  m = {}
end
local sealed, generation = m[1] or nil, number(m[2], ${MAX_AHEAD_MS.generation})
local usable, published = number(m[3], ${MAX_AHEAD_MS.token}), number(m[4], 0)
local holder, leased = m[5] or nil, number(m[6], ${MAX_AHEAD_MS.lease})
local fence, since = number(m[7], ${MAX_AHEAD_MS.generation}), number(m[8], 0)
local failure, failed, count = m[9] or nil, number(m[10], ${MAX_AHEAD_MS.failure}), number(m[11], 0)
local rejects, strikes, began = number(m[12], 0), m[13] or '', number(m[14], 0)
local function save(...)
  redis.call('HSET', KEYS[1], ...)
  local last = math.floor(math.max(now, usable, leased, failed) / 1000)
  redis.call('PEXPIREAT', KEYS[1], text(last + ${MEMORY_MS}))
end
local function clear(...) redis.call('HDEL', KEYS[1], ...) end
local function good() return sealed ~= nil and generation > 0 and usable > now end
local function token(what) return {what, text(now), text(generation), sealed} end
-- Protected: without rights to the channel it would end the script after the write. Waiters look again by themselves.
local function wake(channel, name) redis.pcall('PUBLISH', channel, name) end
-- A base of 0: for just as long as the cap says, and not counted.
local function lapse(payload, baseMs, capMs)
  local waitMs = capMs
  if baseMs > 0 then
    count = math.min(count + 1, 32)
    waitMs = math.floor(math.min(capMs, baseMs * 2 ^ (count - 1)))
  end
  failed = math.max(failed, now + waitMs * 1000)
  save('f', payload, 'x', text(failed), 'c', text(count))
end
`;

function script(name: string, body: string): RecordScript {
  const source = `${PROLOGUE}${body}`;
  return { name, source, sha: createHash('sha1').update(source).digest('hex') };
}

/**
 * What the caller is to do. A good token newer than *avoid* and with the least life: take it. Else a failure that still
 * stands: fail alike. Else another's lease: wait, so long at most. Else the lease is the caller's, with the generation
 * for what it will publish. The same flight gets the same answer again, since clients resend.
 */
export const ACQUIRE = script(
  'acquire',
  `
local flight, leaseMs, avoid, lifeMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if good() and generation > avoid and usable > now + lifeMs * 1000 then return token('token') end
if failure and failed > now then return {'failure', text(now), text(failed - now), failure} end
if holder and leased > now then
  if holder == flight then return {'lead', text(now), text(fence)} end
  return {'wait', text(now), text(leased - now)}
end
fence = math.max(now, generation + 1, fence + 1, avoid + 1)
leased = now + leaseMs * 1000
save('h', flight, 'l', text(leased), 'n', text(fence), 's', text(now))
return {'lead', text(now), text(fence)}
`,
);

/** The lease goes on, for its holder and up to the longest hold. */
export const RENEW = script(
  'renew',
  `
local flight, leaseMs, maxHoldMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if holder ~= flight or now > since + maxHoldMs * 1000 then return {'lost', text(now)} end
leased = now + leaseMs * 1000
save('l', text(leased))
return {'held', text(now)}
`,
);

const STORE = `
local flight, channel, name = ARGV[1], ARGV[2], ARGV[3]
local mine, value, last = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if holder == flight then
  clear('h', 'l', 's')
  leased = 0
end
local function store()
  sealed, generation, failed = value, mine, 0
  usable = math.min(last, now + ${MAX_SHARED_MS}000)
  save('v', value, 'g', text(mine), 'u', text(usable), 'p', text(now))
  clear('f', 'x', 'c')
  wake(channel, name)
  return {'stored', text(now)}
end
local function refuse()
  if holder == flight then wake(channel, name) end
  return {'refused', text(now)}
end
`;

/**
 * Stores the token of a lease. Refused unless it is newer than the stored one; a good one that is newer still is the
 * answer then. Ends the caller's own lease in any case, and the failure if stored; wakes the waiters.
 */
export const PUBLISH = script(
  'publish',
  `${STORE}
if mine == generation and sealed == value then return {'stored', text(now)} end
if mine <= generation and good() then
  refuse()
  return token('superseded')
end
if mine <= generation or last <= now then return refuse() end
return store()
`,
);

/** Stores a token that was obtained without a lease, only where no good one is. Ends the caller's own lease. */
export const OFFER = script(
  'offer',
  `${STORE}
if good() or mine <= generation or mine > now or last <= now then return refuse() end
return store()
`,
);

/**
 * The holder's request brought no token: its lease ends, the waiters are woken, and the failure, if it is to be shared,
 * stands for base × 2^(count − 1), up to the cap.
 */
export const FAIL = script(
  'fail',
  `
local flight, channel, name, payload = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local baseMs, capMs = tonumber(ARGV[5]), tonumber(ARGV[6])
if holder ~= flight then return {'lost', text(now)} end
clear('h', 'l', 's')
leased = 0
if payload ~= '' then lapse(payload, baseMs, capMs) end
wake(channel, name)
return {'released', text(now)}
`,
);

/**
 * Removes the token of that generation and of no other; its number stays, so that nothing older comes back. The third
 * in a row that was rejected while fresh is a failure.
 */
export const REJECT = script(
  'reject',
  `
local mine, freshMs, payload = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local baseMs, capMs = tonumber(ARGV[4]), tonumber(ARGV[5])
if not sealed or mine ~= generation then return {'kept', text(now)} end
clear('v', 'u', 'p')
usable = 0
rejects = now <= published + freshMs * 1000 and rejects + 1 or 0
save('r', text(rejects))
if rejects >= 3 then lapse(payload, baseMs, capMs) end
return {'dropped', text(now)}
`,
);

/**
 * Before a request is made, of the endpoint's record: go on when nothing is known against it. While a failure stands,
 * and while another probes, fail alike. After it one flight is the probe.
 */
export const ENTER = script(
  'enter',
  `
local flight, leaseMs = ARGV[1], tonumber(ARGV[2])
if not failure then return {'open', text(now)} end
if failed > now then return {'failure', text(now), text(failed - now), failure} end
if holder and leased > now and holder ~= flight then return {'failure', text(now), text(leased - now), failure} end
leased = now + leaseMs * 1000
save('h', flight, 'l', text(leased), 's', text(now))
return {'probe', text(now)}
`,
);

/**
 * After a request was made, to the endpoint's record. Of a request that entered before the failure that stands, nothing
 * counts, but for a longer time that the service named. `passed`: nothing is known against it any more. `answered` (it
 * blamed the owner alone): lifts the failure. `blamed`: a failure of all. `struck` (may be of the owner alone): one of
 * all when it is the probe's, or the third of distinct owners in a row; one that may be the client's shows that the
 * endpoint answers. `released`: nothing was learnt. Says how much longer a failure of all stands, if it was one.
 */
export const SETTLE = script(
  'settle',
  `
local flight, entered, outcome, scope = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local owner, payload, baseMs, capMs = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
if holder == flight then
  clear('h', 'l', 's')
  leased = 0
end
if outcome == 'released' then return {'released', text(now)} end
local late = failure and entered <= began
if late and not (outcome == 'blamed' and baseMs == 0) then
  return {'late', text(now), text(math.max(0, failed - now))}
end
if outcome == 'passed' then
  redis.call('DEL', KEYS[1])
  return {'clear', text(now)}
end
local answers = string.find(failure or '', '"scope":"endpoint"', 1, true) and scope == 'client' and outcome == 'struck'
if outcome == 'answered' or answers then
  clear('f', 'x', 'c', 'b')
  failure, failed, count = nil, 0, 0
end
if outcome == 'answered' then return {'clear', text(now)} end
if outcome == 'struck' and not failure then
  if string.sub(strikes, 1, #scope + 1) ~= scope .. ' ' then strikes = scope .. ' ' end
  if not string.find(strikes, ' ' .. owner .. ' ', 1, true) then strikes = strikes .. owner .. ' ' end
  local _, struck = string.gsub(strikes, ' ', '')
  if struck <= 3 then
    save('k', strikes)
    return {'struck', text(now)}
  end
end
clear('k')
lapse(payload, baseMs, capMs)
save('b', text(now))
return {'failed', text(now), text(failed - now)}
`,
);
