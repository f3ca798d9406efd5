#include <string>
#include "money.hpp"
using namespace std;

namespace shop {

template <typename T>
class Base {
public:
    virtual ~Base() = default;
    virtual int total() const = 0;
    T value;
};

class Order : public Base<int> {
public:
    explicit Order(std::string name) : name_(name) {}
    int total() const override { return sum_up(1, 2); }
    void load(int id);
    bool operator==(const Order &o) const { return name_ == o.name_; }

private:
    std::string name_;
    int count = 0;
    static int sum_up(int a, int b);
};

struct Point { int x, y; };

enum class State { Open, Paid };

int Order::sum_up(int a, int b) { return a + b; }

void Order::load(int id) {
    helper(id);
    this->total();
}

template <typename T>
T twice(T x) { return x + x; }

}  // namespace shop

static void helper(int id) { shop::twice<int>(id); }

int main() {
    auto *o = new shop::Order("a");
    o->load(1);
    auto f = [](int x) { return x; };
    return f(o->total());
}
