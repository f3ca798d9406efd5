package shop

import java.util.UUID
import kotlin.math.*
import shop.money.Price as P

const val LIMIT = 10

typealias Items = List<String>

interface Store {
    fun load(id: Int): Order?
}

data class Order(val items: Items, var buyer: String) : Base(), Store {
    private val id = UUID.randomUUID()
    val size: Int get() = items.size

    fun total(): Int = sumUp(items)

    override fun load(id: Int): Order? {
        println(total())
        return null
    }

    companion object {
        fun empty(): Order = Order(emptyList(), "")
    }
}

object Registry {
    fun add(o: Order) { o.total() }
}

enum class State { OPEN, PAID }

fun sumUp(items: Items): Int = items.sumOf { it.length }

fun String.shout() = uppercase()

suspend fun main() {
    val o = Order.empty()
    Registry.add(o)
    println(sumUp(o.items).toString().shout())
}
