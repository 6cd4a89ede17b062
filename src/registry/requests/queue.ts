/**
 * Where each request is until it ends, and which queued one starts next.
 *
 *     lanes ──start──▶ running ──far slower than usual──▶ slow
 *       ▲                                                   │
 *       └──after 50 to 150 ms──◀ retrying ◀──failed─────────┘
 *
 * | lane | requests |
 * |---|---|
 * | canary | canaries, which start even while a circuit or a rate limit stops all others |
 * | known | owners that had a token |
 * | new | owners that never had one |
 * | refresh | refreshes that no caller waits for, and warm-ups |
 * | failing | owners whose last request failed |
 *
 * The first lane that is not empty goes first. Within a lane the oldest request goes first, but once it has waited a second,
 * the newest does (adaptive LIFO): in a queue longer than callers are willing to wait, FIFO would serve nobody in time.
 */

/** The priority of a request. */
export type Lane = 'canary' | 'known' | 'new' | 'refresh' | 'failing';

/** Where a request is until it ends. */
export type Place = Lane | 'retrying' | 'running' | 'slow';

/** A request as the queue sees it. Only this file changes it. */
export class QueueEntry {
  /** Its priority, even while it is in no lane. */
  lane: Lane;
  /** Undefined before it joins the queue, and after its end. */
  place: Place | undefined = undefined;
  previous: QueueEntry | undefined = undefined;
  next: QueueEntry | undefined = undefined;
  /** When it joined the queue; a retry keeps the time of the first attempt. */
  queuedAtMs: number;
  /** Requests are numbered in the order in which they start. */
  number = 0;
  startedAtMs = 0;

  constructor(lane: Lane, nowMs: number) {
    this.lane = lane;
    this.queuedAtMs = nowMs;
  }
}

export const LANES: readonly Lane[] = ['canary', 'known', 'new', 'refresh', 'failing'];
/** An open circuit refuses all but canaries. */
export const REFUSED_LANES = LANES.slice(1);
/** The order in which a circuit's trial is chosen: owners that had a token have canaries to stand for them. */
export const TRIAL_LANES: readonly Lane[] = ['canary', 'new', 'known', 'refresh', 'failing'];

/** Once the oldest request of a lane has waited this long, the newest goes first. */
const NEWEST_FIRST_AFTER_MS = 1_000;

/** After a standstill, this long is allowed to read arrived answers and to send interrupted requests again. */
const AFTER_STANDSTILL_MS = 1_000;

/**
 * A doubly linked list: the requests hold the links.
 *
 * Not a `Map` or `Set`, which V8 rehashes into a new table that the old one references: once an old table is promoted to the
 * old generation, all later ones survive minor collections. `test/system/allocations.test.ts` bounds what is left over.
 */
interface List<E> {
  first: E | undefined;
  last: E | undefined;
  length: number;
}

const newList = <E>(): List<E> => ({ first: undefined, last: undefined, length: 0 });

/** @typeParam E the requests. */
export class RequestQueue<E extends QueueEntry> {
  /** Requests in the lanes. */
  waiting = 0;
  #started = 0;
  /** The requests in each place. `running` is in the order of their start. */
  readonly lists: Readonly<Record<Place, Readonly<List<E>>>> = {
    canary: newList(),
    known: newList(),
    new: newList(),
    refresh: newList(),
    failing: newList(),
    retrying: newList(),
    running: newList(),
    slow: newList(),
  };

  /** Requests that were not sent yet, or wait for their retry. */
  get queued(): number {
    return this.waiting + this.lists.retrying.length;
  }

  get running(): number {
    return this.lists.running.length;
  }

  get inFlight(): number {
    return this.running + this.lists.slow.length;
  }

  /** Takes the request out of its place, and adds it to the end of another; undefined: to none. */
  move(entry: E, to: Place | undefined): void {
    if (entry.place) this.#unlink(entry, this.lists[entry.place]);
    entry.place = to;
    if (!to) return;
    const list: List<E> = this.lists[to];
    entry.previous = list.last;
    if (list.last) list.last.next = entry;
    else list.first = entry;
    list.last = entry;
    list.length++;
    if (to === entry.lane) this.waiting++;
  }

  /** Leaves no links in the request, because they would keep its neighbours alive. */
  #unlink(entry: E, list: List<E>): void {
    const { previous, next } = entry as { previous: E | undefined; next: E | undefined };
    if (previous) previous.next = next;
    else list.first = next;
    if (next) next.previous = previous;
    else list.last = previous;
    entry.previous = undefined;
    entry.next = undefined;
    list.length--;
    if (entry.place === entry.lane) this.waiting--;
  }

  /** Adds the request to another lane. */
  enqueue(entry: E, lane: Lane): void {
    this.move(entry, undefined);
    entry.lane = lane;
    this.move(entry, lane);
  }

  /** Moves the request that starts next to `running`. @param onlyCanaries while a circuit or a rate limit stops all others. */
  startNext(nowMs: number, onlyCanaries: boolean, lanes = LANES): E | undefined {
    for (const lane of lanes) {
      const { first, last } = this.lists[lane];
      const next = first && nowMs - first.queuedAtMs > NEWEST_FIRST_AFTER_MS ? last : first;
      if (next) {
        this.move(next, 'running');
        next.number = ++this.#started;
        next.startedAtMs = nowMs;
      }
      if (next || onlyCanaries) return next;
    }
    return undefined;
  }

  /** The request that has waited longest in these lanes. */
  longestWaiting(lanes = LANES): E | undefined {
    let longest: E | undefined;
    for (const lane of lanes) {
      const { first } = this.lists[lane];
      if (first && (!longest || first.queuedAtMs < longest.queuedAtMs)) longest = first;
    }
    return longest;
  }

  /** The process stood still for `ms`: neither that time nor the moment after it counts as waiting or latency. */
  postpone(ms: number, nowMs: number): void {
    const later = (atMs: number) => Math.min(nowMs, atMs + ms + AFTER_STANDSTILL_MS);
    for (const entry of Object.values(this.lists).flatMap(entriesOf)) {
      entry.queuedAtMs = later(entry.queuedAtMs);
      entry.startedAtMs = later(entry.startedAtMs);
    }
  }

  /**
   * All requests, those in flight first. The queued ones are not copied: end each before reading the next, or it comes again.
   */
  *drain(): Generator<E> {
    const { running, slow, ...waiting } = this.lists;
    yield* [running, slow].flatMap(entriesOf);
    for (const list of Object.values(waiting)) while (list.first) yield list.first;
  }
}

function entriesOf<E extends QueueEntry>({ first }: Readonly<List<E>>): E[] {
  const entries: E[] = [];
  for (let entry = first; entry; entry = entry.next as E | undefined) entries.push(entry);
  return entries;
}
