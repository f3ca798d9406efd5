use std::collections::HashMap;
use crate::money::{Price, Tax};

mod helpers;

const LIMIT: usize = 10;
static NAME: &str = "shop";

type Items = Vec<String>;

pub trait Store {
    fn load(&self, id: u32) -> Option<Order>;
    fn name(&self) -> String {
        String::from("store")
    }
}

#[derive(Debug)]
pub struct Order {
    pub items: Items,
    buyer: Option<Buyer>,
}

pub struct Buyer(String, u32);

enum State {
    Open,
    Paid { by: Buyer },
}

impl Order {
    pub fn new(items: Items) -> Self {
        Order { items, buyer: None }
    }

    fn total(&self) -> usize {
        sum_up(&self.items)
    }
}

impl Store for Order {
    fn load(&self, id: u32) -> Option<Order> {
        println!("{} {}", id, self.total());
        None
    }
}

fn sum_up(items: &Items) -> usize {
    items.iter().map(|i| i.len()).sum()
}

macro_rules! twice {
    ($e:expr) => { $e; $e };
}

fn main() {
    let o = Order::new(vec![]);
    let m: HashMap<String, Price> = HashMap::new();
    o.load(1);
    helpers::log(&o);
    twice!(sum_up(&o.items));
}
