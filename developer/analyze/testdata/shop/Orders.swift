import Foundation
import struct Money.Price

let limit = 10

typealias Items = [String]

protocol Store {
    func load(id: Int) -> Order?
}

class Order: Base, Store {
    var items: Items
    private let buyer: String?

    init(items: Items) {
        self.items = items
        self.buyer = nil
    }

    deinit { cleanUp() }

    func total() -> Int {
        return sumUp(items)
    }

    func load(id: Int) -> Order? {
        print(self.total())
        return nil
    }
}

struct Point {
    let x: Int
    func length() -> Double { return sqrt(Double(x)) }
}

enum State {
    case open, paid
    func code() -> Int { return 1 }
}

extension Order {
    func clear() { items.removeAll() }
}

func sumUp(_ items: Items) -> Int {
    return items.map { $0.count }.reduce(0, +)
}

func main() {
    let o = Order(items: [])
    _ = o.load(id: 1)
    o.clear()
}
