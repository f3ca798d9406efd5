package shop;

import java.util.List;
import java.util.*;
import static java.lang.Math.max;

public class Orders extends Base implements Store {
    private static final int LIMIT = 10;
    private List<String> items, others;

    public Orders(List<String> items) {
        super();
        this.items = items;
    }

    public int total() {
        return sumUp(items);
    }

    private static int sumUp(List<String> items) {
        return items.stream().mapToInt(String::length).sum();
    }

    static class Line {
        String name;
        Line(String name) { this.name = name; }
    }

    public static void main(String[] args) {
        Orders o = new Orders(List.of());
        System.out.println(max(o.total(), LIMIT));
    }
}

interface Store {
    int total();
}

enum State { OPEN, PAID; int code() { return ordinal(); } }

record Point(int x, int y) {
    int sum() { return x + y; }
}
