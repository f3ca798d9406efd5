package shop

import (
	"fmt"
	"strings"
)

import "os"

// Limit is how many orders a basket holds.
const Limit = 10

const (
	small, large = 1, 2
)

var counter int

type ID int

type Store interface {
	Load(id ID) (*Order, error)
}

type Order struct {
	Items      []string
	buyer, pay string
	Store
}

type Pair[K comparable, V any] struct {
	Key K
	Val V
}

func (o *Order) Add(item string) error {
	o.Items = append(o.Items, strings.TrimSpace(item))
	return o.check(Limit)
}

func (o Order) check(max int) error {
	if len(o.Items) > max {
		return fmt.Errorf("too many: %d", max)
	}
	return nil
}

func (p Pair[K, V]) First() K { return p.Key }

func NewOrder(names ...string) *Order {
	o := &Order{Items: nil}
	each(names, func(n string) {
		_ = o.Add(n)
	})
	return o
}

func each(names []string, do func(string)) {
	for _, n := range names {
		do(n)
	}
}

func main() {
	a := NewOrder("x")
	b := NewOrder("y")
	c := NewOrder("z")
	d := NewOrder()
	fmt.Println(a, b, c, d, os.Args)
}
