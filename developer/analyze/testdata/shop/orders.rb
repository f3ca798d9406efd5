require 'json'
require_relative 'money'
load 'extra.rb'

module Shop
  LIMIT = 10

  class Order < Base
    attr_reader :items, :buyer
    attr_accessor :state
    include Comparable

    def initialize(items)
      @items = items
    end

    def total
      sum_up(@items)
    end

    def self.empty
      new([])
    end

    def paid?
      state == :paid
    end
  end

  def self.deliver(to)
    order = Order.empty
    puts order.total
    order.each { |x| log x }
  end
end

def sum_up(items)
  items.map(&:size).sum
end

def main
  Shop.deliver "home"
  puts JSON.dump(sum_up([]))
end

main
