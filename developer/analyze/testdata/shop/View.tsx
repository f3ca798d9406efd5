import React, { useState } from 'react';
import { Order } from './orders';

type Props = { order: Order; onPay?: () => void };

export function Row({ order }: Props) {
  const [open, setOpen] = useState<boolean>(false);
  return <li onClick={() => setOpen(!open)}>{format(order.name)}</li>;
}

const format = (s: string): string => s.trim();

export class Table extends React.Component<Props> {
  render() {
    return <ul><Row order={this.props.order} /></ul>;
  }
}
