#include <stdio.h>
#include "money.h"

#define LIMIT 10
#define TWICE(x) ((x) + (x))

typedef unsigned int id_t2;

struct order {
    char *items[LIMIT];
    int count, paid;
};

typedef struct {
    int x;
    int y;
} point;

enum state { OPEN, PAID };

union word { int i; float f; };

static int sum_up(const struct order *o);

int total(struct order *o)
{
    return sum_up(o) + TWICE(1);
}

static int sum_up(const struct order *o)
{
    return o->count;
}

char *name_of(int id) { return 0; }

int main(int argc, char **argv)
{
    struct order o = {0};
    int (*f)(struct order *) = total;
    printf("%d %s\n", f(&o), name_of(total(&o)));
    return 0;
}
