/**
 * A list whose items carry its links, so that any item can be removed in constant time. For what comes and goes with
 * each request it is used instead of a `Map` or `Set`: V8 enlarges and cleans those by making a new table that the old
 * one points to. Once an old table has survived a few collections of young garbage, each such collection keeps all later
 * tables and what was in them, every request of the past included, until the next full collection.
 */
export interface Linked<T> {
  /** The list that the item is in. */
  list?: { remove(item: T): boolean } | undefined;
  previous?: T | undefined;
  next?: T | undefined;
}

export class LinkedList<T extends Linked<T>> implements Iterable<T> {
  first: T | undefined;
  length = 0;
  #last: T | undefined;

  push(item: T): void {
    this.#insert(item, this.#last, undefined);
  }

  unshift(item: T): void {
    this.#insert(item, undefined, this.first);
  }

  /** Returns false if the item is not in this list. Leaves no links in it, because they would keep its neighbours. */
  remove(item: T): boolean {
    if (item.list !== this) return false;
    const { previous, next } = item;
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
    item.list = item.previous = item.next = undefined;
    this.length--;
    return true;
  }

  /** Items must not be removed meanwhile. */
  *[Symbol.iterator](): Generator<T> {
    for (let item = this.first; item; item = item.next) yield item;
  }

  #insert(item: T, previous: T | undefined, next: T | undefined): void {
    item.list = this;
    item.previous = previous;
    item.next = next;
    if (previous) previous.next = item;
    else this.first = item;
    if (next) next.previous = item;
    else this.#last = item;
    this.length++;
  }
}
