import { Price } from './money';
import type { Buyer } from './buyer';
import * as path from 'path';

export interface Store {
  load(id: number): Order;
  name: string;
}

export type ID = number | string;

export enum State { Open, Paid }

namespace Inner {
  export function hidden(): void {}
}

abstract class Base<T> {
  protected value?: T;
  abstract save(to: Store): void;
}

export class Order extends Base<Price> implements Store {
  name = 'order';
  private items: string[] = [];

  constructor(private readonly buyer: Buyer) {
    super();
  }

  load(id: number): Order {
    return this;
  }

  save(to: Store): void {
    to.load(1);
    log<string>(path.join('a', this.name));
  }
}

function log<T>(x: T): void {
  console.log(x);
}

export const create = (buyer: Buyer): Order => new Order(buyer);

export async function main(): Promise<void> {
  const o = create({} as Buyer);
  o.save(o);
}
