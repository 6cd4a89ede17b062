/** What coverage needs of a token. */
export interface CoveringToken {
  readonly accessKey: { readonly ownerId: string };
  readonly expiresAtMs: number;
  readonly revokedAtMs: number | undefined;
  readonly delivered: boolean;
  readonly dropped?: true;
}

/**
 * How many owners hold a usable token now: one that was delivered, not revoked, and has not expired. Kept up to date per
 * token, so that asking costs nothing: each owner has a stack of tokens with its newest usable one on top, and a heap
 * orders the tops by expiry.
 */
export class Coverage {
  readonly #stacks = new Map<string, CoveringToken[]>();
  /** Where a stack has outgrown 64 tokens: its length at which dead ones are removed next. */
  readonly #trimAt = new Map<string, number>();
  /** The tops and, until they surface, tokens that once were tops. */
  readonly #expiries: { readonly endMs: number; readonly owner: string }[] = [];
  #covered = 0;

  add(token: CoveringToken, nowMs: number): void {
    const owner = token.accessKey.ownerId;
    let stack = this.#stacks.get(owner);
    if (!stack) {
      stack = [];
      this.#stacks.set(owner, stack);
    }
    if (stack.length === 0) this.#covered++;
    stack.push(token);
    if (stack.length >= (this.#trimAt.get(owner) ?? 64)) {
      const kept = stack.filter((each) => each === token || isUsable(each, nowMs));
      this.#stacks.set(owner, kept);
      this.#trimAt.set(owner, Math.max(64, kept.length * 2));
    }
    this.#push(token.expiresAtMs, owner);
    this.check(owner, nowMs);
  }

  /** Call it when a token of this owner was revoked, lost or dropped. */
  check(owner: string, nowMs: number): void {
    const stack = this.#stacks.get(owner);
    if (!stack || stack.length === 0) return;
    let top = stack.at(-1);
    const before = top;
    while (top && !isUsable(top, nowMs)) {
      stack.pop();
      top = stack.at(-1);
    }
    if (!top) this.#covered--;
    else if (top !== before) this.#push(top.expiresAtMs, owner);
  }

  /** The number of owners with a usable token. */
  count(nowMs: number): number {
    for (let first = this.#expiries[0]; first && first.endMs <= nowMs; first = this.#expiries[0]) {
      this.#pop();
      this.check(first.owner, nowMs);
    }
    return this.#covered;
  }

  /** When this owner's newest usable token expires. */
  endOf(owner: string, nowMs: number): number | undefined {
    this.check(owner, nowMs);
    return this.#stacks.get(owner)?.at(-1)?.expiresAtMs;
  }

  clear(): void {
    this.#stacks.clear();
    this.#trimAt.clear();
    this.#expiries.length = 0;
    this.#covered = 0;
  }

  #push(endMs: number, owner: string): void {
    const heap = this.#expiries;
    let index = heap.push({ endMs, owner }) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if ((heap[parent]?.endMs ?? 0) <= endMs) break;
      this.#swap(index, parent);
      index = parent;
    }
  }

  #pop(): void {
    const heap = this.#expiries;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    heap[0] = last;
    for (let index = 0; ; ) {
      const [left, right] = [2 * index + 1, 2 * index + 2];
      const endMs = (at: number) => heap[at]?.endMs ?? Number.POSITIVE_INFINITY;
      const least = endMs(left) <= endMs(right) ? left : right;
      if (endMs(least) >= last.endMs) return;
      this.#swap(index, least);
      index = least;
    }
  }

  #swap(a: number, b: number): void {
    const heap = this.#expiries;
    const [first, second] = [heap[a], heap[b]];
    if (first && second) [heap[a], heap[b]] = [second, first];
  }
}

const isUsable = (token: CoveringToken, nowMs: number): boolean =>
  token.delivered && !token.dropped && token.revokedAtMs === undefined && nowMs < token.expiresAtMs;
