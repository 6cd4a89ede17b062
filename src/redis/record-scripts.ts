/**
 * The shared records: one hash for each owner, one for the endpoint and client, one that lists the replicas, and one that
 * paces their requests. Every operation is one Lua script over one key, so it works on a standalone server, behind
 * sentinels and on a cluster. Each script replies `[what, now, …]`, all strings.
 *
 * All time is the server's (`TIME`, in microseconds), so the replicas' clocks do not matter. A generation is
 * max(now, stored + 1): the fencing token of a lease, the version of a token, and the number by which it is rejected. It
 * grows across eviction and FLUSHALL, which a counter does not.
 *
 * | field | holds |
 * |---|---|
 * | `v` `g` `u` | sealed token, its generation, usable until |
 * | `h` `l` `n` `s` | lease: the leader's call, until when, its generation, since when |
 * | `f` `x` | sealed failure, and when it ends |
 * | `w` | followers wait, so the end of the lease wakes them: `c` on the common channel, `s` on the record's own |
 * | `t` | the next free send time, in the record that paces requests |
 *
 * The scripts store facts. They neither interpret nor count failures: the replica whose request failed seals into it what
 * it means and when it ends. A field that none of the scripts could have written counts as absent. A key of another
 * type is deleted, since its name is ours alone.
 */

import { createHash } from 'node:crypto';
import { MAX_SILENCE_MS } from './circuit-breaker.ts';

/**
 * A Lua script over one key.
 *
 * @example
 * ```ts
 * const port: RedisPort = {
 *   async run(script: RecordScript) {
 *     throw new Error(`no server for ${script.name}`); // counts as a lost connection
 *   },
 * };
 * ```
 */
export interface RecordScript {
  /** What it does to the record, in a word. */
  readonly name: string;
  /** Its Lua source. */
  readonly source: string;
  /** SHA-1 of the source, for EVALSHA. */
  readonly sha: string;
}

/** The longest that a token is shared, whatever its lifetime: keys of removed owners must not stay forever. */
export const MAX_SHARED_MS = 7 * 86_400_000;

/** How long a record outlives everything in it, so that generations and failure counts survive a quiet period. */
export const MEMORY_MS = 600_000;

/** How far in the future a time may be stored; a later one is corrupt. */
export const MAX_AHEAD_MS = {
  generation: 86_400_000,
  token: MAX_SHARED_MS,
  lease: 120_000,
  failure: 3_600_000,
  sendTime: 3_600_000,
} as const;

const CLOCK = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(n) return string.format('%.0f', n) end
`;

const RECORD = `${CLOCK}
local function number(field, aheadMs)
  local n = tonumber(field or 0) or 0
  if n >= 0 and n <= now + aheadMs * 1000 then return n end
  return 0
end
local m = redis.pcall('HMGET', KEYS[1], 'v', 'g', 'u', 'h', 'l', 'n', 's', 'f', 'x', 'w')
if m.err then
  redis.call('DEL', KEYS[1])
  m = {}
end
local sealed, generation, usable = m[1] or nil, number(m[2], ${MAX_AHEAD_MS.generation}), number(m[3], ${MAX_AHEAD_MS.token})
local leader, leased = m[4] or nil, number(m[5], ${MAX_AHEAD_MS.lease})
local fence, since = number(m[6], ${MAX_AHEAD_MS.generation}), number(m[7], 0)
local failure, failed, waiting = m[8] or nil, number(m[9], ${MAX_AHEAD_MS.failure}), m[10]
local function save(...)
  redis.call('HSET', KEYS[1], ...)
  redis.call('PEXPIREAT', KEYS[1], text(math.floor(math.max(now, usable, leased, failed) / 1000) + ${MEMORY_MS}))
end
local function clear(...) redis.call('HDEL', KEYS[1], ...) end
local function good() return sealed and generation > 0 and usable > now end
local function endLease(call)
  if leader ~= call then return end
  clear('h', 'l', 's')
  leased = 0
end
local function waits(mode) return string.find(waiting or '', mode, 1, true) end
-- Protected: a user without rights to the channel would abort the script after its writes. Followers poll as well.
local function wake(channel, name, mode, all)
  local common, shard = waits('c') or all and mode == 'c', waits('s') or all and mode == 's'
  if waiting then clear('w') end
  if common then redis.pcall('PUBLISH', channel, name) end
  if shard then redis.pcall('SPUBLISH', KEYS[1], name) end
end
`;

function script(name: string, source: string): RecordScript {
  return { name, source, sha: createHash('sha1').update(source).digest('hex') };
}

/**
 * Decides what the call does. First it drops a token that the caller reports as rejected, and a failure that the caller
 * could not decrypt. Then the first rule that applies gives the reply:
 *
 * 1. `token`: a usable one newer than *avoid*, with at least the required life left.
 * 2. `failure`: one that has not ended.
 * 3. `wait`: another call holds the lease. With the time until it ends, including the allowance for lateness if the
 *    caller's lateness is known.
 * 4. `free`: nobody holds the lease, and the caller did not ask for it: it passed a lease of 0, or of -1 if it waits for
 *    a send time and wants a wake-up if a token arrives first. With the ended failure, if any.
 * 5. `lead`: the caller holds the lease now. With its generation, and the ended failure, if any.
 *
 * A repeated script gets the same reply, because clients resend. A call that waits notes in the record how it listens.
 *
 * A slow Redis delays a leader's renewal as much as this script. So a lease is extended by the time since the script was
 * sent, as the replica estimates it, and an expired lease is left to its holder for as long. A replica that does not know
 * the server's time yet counts as late by the maximum. It renews its lease at once, which ends that extension.
 */
export const ACQUIRE = script(
  'acquire',
  `${RECORD}
local call, leaseMs, avoid, lifeMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local mode, sent = ARGV[7], tonumber(ARGV[8])
local lateUs = sent > 0 and math.min(math.max(now - sent, 0), ${MAX_SILENCE_MS}000) or ${MAX_SILENCE_MS}000
if sealed and generation == tonumber(ARGV[5]) then
  clear('v', 'u')
  sealed, usable = nil, 0
end
if failure and failure == ARGV[6] then
  clear('f', 'x')
  failure, failed = nil, 0
end
if good() and generation > avoid and usable > now + lifeMs * 1000 then
  return {'token', text(now), text(generation), sealed}
end
if failure and failed > now then return {'failure', text(now), text(failed - now), failure} end
if leader and leased + lateUs > now then
  if leader == call then return {'lead', text(now), text(fence), failure or ''} end
  if not waits(mode) then redis.call('HSET', KEYS[1], 'w', (waiting or '') .. mode) end
  -- This reply tells the caller the server's time: its next script states its real lateness, so it need not wait 8 s.
  return {'wait', text(now), text(math.max(leased + (sent > 0 and lateUs or 0) - now, 0))}
end
if leaseMs < 0 and not waits(mode) then save('w', (waiting or '') .. mode) end
if leaseMs <= 0 then return {'free', text(now), '0', failure or ''} end
fence = math.max(now, generation + 1, fence + 1, avoid + 1)
leased = now + leaseMs * 1000 + lateUs
save('h', call, 'l', text(leased), 'n', text(fence), 's', text(now))
return {'lead', text(now), text(fence), failure or ''}
`,
);

/** Extends the leader's lease, up to the maximum hold. */
export const RENEW = script(
  'renew',
  `${RECORD}
local call, leaseMs, maxHoldMs = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if leader ~= call or now > since + maxHoldMs * 1000 then return {'lost', text(now)} end
leased = now + leaseMs * 1000
save('l', text(leased))
return {'held', text(now)}
`,
);

/**
 * Stores a token, clears the failure, ends the caller's lease and wakes the followers. Refused if the token is not newer
 * than the stored one, or older than any lease granted since: a leader that was frozen cannot overrule its successor. If
 * a usable token of the same or a later generation is stored already, the reply is that one. A token obtained without a
 * lease is stored only where none is.
 */
export const PUBLISH = script(
  'publish',
  `${RECORD}
local call, channel, name = ARGV[1], ARGV[2], ARGV[3]
local mine, value, last, leaseless = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local mode = ARGV[8]
local held = leader == call
endLease(call)
if mine == generation and sealed == value then return {'stored', text(now)} end
local reply = {'stored', text(now)}
if mine <= generation and good() then
  reply = {'superseded', text(now), text(generation), sealed}
elseif mine <= generation or mine < fence or last <= now or (leaseless and (good() or mine > now)) then
  reply = {'refused', text(now)}
else
  usable, failed = math.min(last, now + ${MAX_SHARED_MS}000), 0
  save('v', value, 'g', text(mine), 'u', text(usable))
  clear('f', 'x')
end
if held or reply[1] == 'stored' then wake(channel, name, mode) end
return reply
`,
);

/**
 * Ends the caller's lease without a token. `failed` stores a failure, unless the stored one ends later. `passed` clears
 * it, which only the leader may do: its request was the trial. Wakes the followers; with `all` every subscriber learns
 * that the failure has changed.
 */
export const RELEASE = script(
  'release',
  `${RECORD}
local call, channel, name, outcome = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local payload, last, all, mode = ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1', ARGV[8]
local held, changed = leader == call, false
endLease(call)
if outcome == 'failed' and last > math.max(now, failed) then
  failed, changed = math.min(last, now + ${MAX_AHEAD_MS.failure}000), true
  save('f', payload, 'x', text(failed))
elseif outcome == 'passed' and held and failure then
  changed = true
  clear('f', 'x')
end
if held or changed then wake(channel, name, mode, all and changed) end
return {changed and 'changed' or 'released', text(now)}
`,
);

/**
 * Reserves send times, the given interval apart. Replies with the microseconds until the first. A quiet period saves
 * none up. A stored time too far in the future is corrupt, and counts as absent.
 */
export const RESERVE = script(
  'reserve',
  `${CLOCK}
local count, intervalUs = tonumber(ARGV[1]), tonumber(ARGV[2])
local m = redis.pcall('HMGET', KEYS[1], 't')
if m.err then
  redis.call('DEL', KEYS[1])
  m = {}
end
local first = tonumber(m[1] or 0) or 0
if not (first > now and first <= now + ${MAX_AHEAD_MS.sendTime}000) then first = now end
local next = first + count * intervalUs
redis.call('HSET', KEYS[1], 't', text(next))
redis.call('PEXPIREAT', KEYS[1], text(math.floor(next / 1000) + ${MEMORY_MS}))
return {'reserved', text(now), text(first - now)}
`,
);

/**
 * Lists a replica with the id of its naming key, or removes it (a window of 0). Replies how many replicas were listed
 * within the window, and how many of them have another naming key.
 */
export const ANNOUNCE = script(
  'announce',
  `${CLOCK}
local replica, keyId, windowMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
if windowMs == 0 then
  redis.call('HDEL', KEYS[1], replica)
  return {'left', text(now)}
end
redis.call('HSET', KEYS[1], replica, keyId .. ' ' .. text(now))
redis.call('PEXPIREAT', KEYS[1], text(math.floor(now / 1000) + windowMs))
local listed, replicas, others = redis.call('HGETALL', KEYS[1]), 0, 0
for i = 1, #listed, 2 do
  local id, seen = string.match(listed[i + 1], '^(%S+) (%d+)$')
  if not seen or tonumber(seen) < now - windowMs * 1000 then
    redis.call('HDEL', KEYS[1], listed[i])
  else
    replicas = replicas + 1
    if id ~= keyId then others = others + 1 end
  end
end
return {'listed', text(now), text(replicas), text(others)}
`,
);
