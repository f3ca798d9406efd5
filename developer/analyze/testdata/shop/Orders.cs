using System;
using System.Collections.Generic;
using static System.Math;
using Money = Shop.Price;

namespace Shop
{
    public interface IStore
    {
        Order Load(int id);
    }

    public class Order : Base, IStore
    {
        private const int Limit = 10;
        private List<string> items, others;
        public string Buyer { get; set; }

        public Order(List<string> items)
        {
            this.items = items;
        }

        ~Order() { Clean(); }

        public int Total() => SumUp(items);

        public Order Load(int id)
        {
            Console.WriteLine(Total());
            return new Order(null);
        }

        static int SumUp(List<string> items)
        {
            int Inner(int x) { return x; }
            return Inner(Max(items.Count, Limit));
        }
    }

    public struct Point { public int X; }

    public record Line(string Name);

    enum State { Open, Paid }

    class Program
    {
        static void Main(string[] args)
        {
            var o = new Order(new List<string>());
            o.Load(1)?.Total();
        }
    }
}
