/**
 * The shared records: one hash for each owner, and one that lists the replicas. Every operation is one Lua script over one
 * key, so it works on a standalone server, behind sentinels and on a cluster. Each script replies `[what, now, …]`, all
 * strings.
 *
 * All time is the server's (`TIME`, in microseconds), so the replicas' clocks do not matter. A generation is
 * max(now, stored + 1): the version of a token, the number by which it is rejected, and the fencing token of a lease. It
 * grows across eviction and FLUSHALL, which a counter does not.
 *
 * | field | holds |
 * |---|---|
 * | `v` `g` `u` | sealed token, its generation, usable until |
 * | `h` `l` `n` | lease: the leader's call, until when, its generation |
 * | `f` `e` | sealed failure, and the generation of the lease that ended with it |
 * | `w` | followers wait, so the end of the lease wakes them: `c` on the common channel, `s` on the record's own |
 *
 * A field that none of the scripts could have written counts as absent. A key of another type is deleted, since only this
 * library uses its name.
 */

import { createHash } from 'node:crypto';

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

/** How long a record outlives its token and its lease, so that the calls that waited can still read its failure. */
export const MEMORY_MS = 600_000;

/** How far in the future a time may be stored; a later one is corrupt. */
export const MAX_AHEAD_MS = { generation: 86_400_000, token: MAX_SHARED_MS, lease: 60_000 } as const;

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
local m = redis.pcall('HMGET', KEYS[1], 'v', 'g', 'u', 'h', 'l', 'n', 'f', 'e', 'w')
if m.err then redis.call('DEL', KEYS[1]) m = {} end
local sealed, generation, usable = m[1] or nil, number(m[2], ${MAX_AHEAD_MS.generation}), number(m[3], ${MAX_AHEAD_MS.token})
local leader, leased, fence = m[4] or nil, number(m[5], ${MAX_AHEAD_MS.lease}), number(m[6], ${MAX_AHEAD_MS.generation})
local failure, failed, waiting = m[7] or nil, number(m[8], ${MAX_AHEAD_MS.generation}), m[9] or ''
local function save(...)
  redis.call('HSET', KEYS[1], ...)
  redis.call('PEXPIREAT', KEYS[1], text(math.floor(math.max(now, usable, leased) / 1000) + ${MEMORY_MS}))
end
local function clear(...) redis.call('HDEL', KEYS[1], ...) end
local function good() return sealed and generation > 0 and usable > now end
local function endLease(call)
  if leader == call then clear('h', 'l') leased = 0 end
  return leader == call
end
local function waits(mode) return string.find(waiting, mode, 1, true) end
-- Protected: a user without rights to the channel would abort the script after its writes. Followers poll as well.
local function tell(channel, ...) redis.pcall('PUBLISH', channel, table.concat({...}, ' ')) end
local function wake(channel, name)
  if waiting ~= '' then clear('w') end
  if waits('c') then tell(channel, name) end
  if waits('s') then redis.pcall('SPUBLISH', KEYS[1], name) end
end
`;

/** The tag of a script's source. */
const script =
  (name: string) =>
  (lua: TemplateStringsArray, ...values: (string | number)[]): RecordScript => {
    const source = String.raw({ raw: lua }, ...values);
    return { name, source, sha: createHash('sha1').update(source).digest('hex') };
  };

/**
 * Decides what the call does. First it drops a token that the caller reports as rejected, and notifies all replicas. Then the
 * first rule that applies gives the reply:
 *
 * 1. `token`: a usable one newer than *avoid*. With its generation.
 * 2. `failure`: the lease for which the caller waited ended with it.
 * 3. `wait`: a call holds the lease, which is another's, or was not asked for (a length of 0). With the time until it ends, and
 *    its generation.
 * 4. `free`: nobody holds the lease, and the caller did not ask for it.
 * 5. `lead`: the caller holds the lease now. With its generation.
 *
 * A lease that lapses makes the next one twice as long, up to the caller's longest: the service may be slow. It lapsed if its
 * holder is still named, and it began at its generation. One that lapsed longer ago than it was long counts no more.
 *
 * A repeated script gets the same reply, because clients resend. A call that does not lead, or only looks, notes in the record
 * how it listens.
 */
export const ACQUIRE = script('acquire')`${RECORD}
local call, leaseMs, avoid = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local rejected, followed, mode, longestMs = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
if sealed and generation == rejected then
  clear('v', 'u')
  sealed, usable = nil, 0
  tell(ARGV[8], ARGV[9], 'rejected', text(generation), ARGV[10])
end
if good() and generation > avoid then return {'token', text(now), text(generation), sealed} end
if failure and followed > 0 and failed == followed then return {'failure', text(now), failure} end
local held = leader and leased > now
if held and leader == call and leaseMs > 0 then return {'lead', text(now), text(fence)} end
if held or leaseMs == 0 then
  if not waits(mode) then save('w', waiting .. mode) end
  if held then return {'wait', text(now), text(leased - now), text(fence)} end
  return {'free', text(now)}
end
local lapsed = leader and leased - fence or 0
if now - leased > lapsed then lapsed = 0 end
fence = math.max(now, generation + 1, fence + 1, avoid + 1)
leased = now + math.max(leaseMs * 1000, math.min(2 * lapsed, longestMs * 1000))
save('h', call, 'l', text(leased), 'n', text(fence))
return {'lead', text(now), text(fence)}
`;

/**
 * Stores a token, ends the caller's lease or one that has lapsed, and wakes the followers. Refused if the token is not newer than the stored one: a
 * leader that was frozen cannot overrule its successor. A token obtained without a lease is stored only where none is. After
 * a failure of the owner it notifies all replicas, which then end their own pauses early.
 */
export const PUBLISH = script('publish')`${RECORD}
local call, channel, name = ARGV[1], ARGV[2], ARGV[3]
local mine, value, last, leaseless = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7] == '1'
local held = endLease(call)
local stored = mine > generation and last > now and not (leaseless and (good() or mine > now))
if stored then
  usable = math.min(last, now + ${MAX_SHARED_MS}000)
  save('v', value, 'g', text(mine), 'u', text(usable))
  if leased <= now then clear('h', 'l') end
  if failure then clear('f', 'e') tell(channel, name, 'recovered', text(mine), ARGV[8]) end
end
if held or stored then wake(channel, name) end
return {stored and 'stored' or 'refused', text(now)}
`;

/**
 * Ends the caller's lease without a token, perhaps with a failure for the calls that waited for it; not if it has lapsed.
 * Wakes the followers.
 */
export const RELEASE = script('release')`${RECORD}
local call, channel, name, sealedFailure = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local held = leased > now
if not endLease(call) then return {'lost', text(now)} end
if held and sealedFailure ~= '' then save('f', sealedFailure, 'e', text(fence)) end
wake(channel, name)
return {'released', text(now)}
`;

/**
 * Takes the token, the failure and the lease out of the record. The generation stays, and with it what was requested before is
 * refused: without the record, a request in flight would bring the owner back. Wakes the followers. With that generation and
 * its proof it tells all replicas instead.
 */
export const FORGET = script('forget')`${RECORD}
local channel, name, newest = ARGV[1], ARGV[2], tonumber(ARGV[3])
if ARGV[5] then
  tell(channel, name, 'forgotten', ARGV[4], ARGV[5])
  return {'told', text(now)}
end
clear('v', 'u', 'h', 'l', 'f', 'e')
usable, leased = 0, 0
generation = math.max(now, generation + 1, fence + 1, newest + 1)
save('g', text(generation))
wake(channel, name)
return {'forgotten', text(now), text(generation)}
`;

/** A replica counts as present for this long after it announced itself. */
export const ANNOUNCED_MS = 300_000;

/** The most replicas that are counted, which limits a reply to a few hundred kilobytes. */
export const MAX_COUNTED = 2_000;

/**
 * Stores a replica's announcement, which begins with its server time in microseconds; a time of 0 removes the replica. Replies with
 * the announcements of all present replicas. Always writes, so a reply proves that writes work.
 */
export const ANNOUNCE = script('announce')`${CLOCK}
local replica, said = ARGV[1], ARGV[2]
if redis.pcall('HMGET', KEYS[1], replica).err then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], replica, said)
redis.call('PEXPIREAT', KEYS[1], text(math.floor(now / 1000) + ${ANNOUNCED_MS}))
local listed, present = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #listed, 2 do
  local seen = tonumber(string.match(listed[i + 1], '^%d+'))
  if not seen or math.abs(now - seen) > ${ANNOUNCED_MS}000 then
    redis.call('HDEL', KEYS[1], listed[i])
  elseif #present < ${MAX_COUNTED} then
    present[#present + 1] = listed[i + 1] .. ' ' .. listed[i]
  end
end
return {'listed', text(now), unpack(present)}
`;
