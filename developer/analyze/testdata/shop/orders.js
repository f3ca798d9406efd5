import fs from 'fs';
import { join, resolve as r } from 'path';
import './side.js';
const http = require('http');

export const LIMIT = 10;

class Order extends Base {
  static count = 0;
  #secret = 1;

  constructor(items) {
    super();
    this.items = items;
  }

  total() {
    return sumUp(this.items);
  }

  get size() { return this.items.length; }
}

function sumUp(items) {
  return items.reduce((a, b) => a + b, 0);
}

const deliver = (to) => {
  const o = new Order([]);
  o.total();
  fs.writeFileSync(join(to, 'x'), String(o));
};

const later = async function named() {
  await deliver('home');
};

export default function main() {
  deliver('a');
  deliver('b');
  later();
}

function* ids() { yield 1; }

main();
