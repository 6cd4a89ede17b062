/**
 * An intrusive doubly linked list: items hold the links, so removal takes constant time.
 *
 * Used instead of a `Map` or `Set` for entries that are added and removed with each request. V8 rehashes those into a new
 * table that the old one references. Once an old table is promoted to the old generation, every later table and its
 * entries survive minor GCs until the next major GC.
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
  last: T | undefined;

  push(item: T): void {
    item.list = this;
    item.previous = this.last;
    if (this.last) this.last.next = item;
    else this.first = item;
    this.last = item;
    this.length++;
  }

  has(item: T): boolean {
    return item.list === this;
  }

  /** Returns false if the item is not in this list. Leaves no links in it, because they would keep its neighbours. */
  remove(item: T): boolean {
    if (item.list !== this) return false;
    const { previous, next } = item;
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.last = previous;
    item.list = item.previous = item.next = undefined;
    this.length--;
    return true;
  }

  /** Do not remove items while iterating. */
  *[Symbol.iterator](): Generator<T> {
    for (let item = this.first; item; item = item.next) yield item;
  }
}
