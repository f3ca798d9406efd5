<?php
namespace Shop;

use Shop\Money\Price;
use Shop\Money\{Tax, Rate as R};
require_once 'helpers.php';

const LIMIT = 10;
define('NAME', 'shop');

interface Store
{
    public function load(int $id): ?Order;
}

trait Logs
{
    protected function log(string $s): void { echo $s; }
}

class Order extends Base implements Store
{
    use Logs;

    private array $items = [];
    public ?string $buyer;

    public function __construct(array $items)
    {
        $this->items = $items;
    }

    public function total(): int
    {
        $this->log('total');
        return sum_up($this->items);
    }

    public function load(int $id): ?Order
    {
        return self::make();
    }

    public static function make(): self
    {
        return new Order([]);
    }
}

enum State { case Open; case Paid; }

function sum_up(array $items): int
{
    return array_sum(array_map(fn($x) => strlen($x), $items));
}

function main(): void
{
    $o = Order::make();
    $o->load(1)->total();
    echo sum_up([]);
}

main();
