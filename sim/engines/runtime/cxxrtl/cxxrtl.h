// The values, registers, memories and cells that a CXXRTL model is written in, in machine words.
//
// CXXRTL's own runtime (https://yosyshq.readthedocs.io/projects/yosys/en/latest/cmd/write_cxxrtl.html)
// keeps every value as an array of 32-bit chunks and works on it in loops, which the compiler has to
// unroll and to take apart again. Here what fits a 32-bit or a 64-bit word is one, and what is wider
// an array of 64-bit words whose places are known when it is compiled. That is less to compile and
// less to run. It serves models without waveforms and with the cells of `CELLS` in
// sim/engines/runtime/__init__.py; all others are built with Yosys' own.
//
// A value's unused upper bits are 0. In memory it is the bytes of its bits, least significant
// first, like CXXRTL's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are handed over as bytes");

#define TIDEGATE_INLINE inline __attribute__((always_inline))
// An address beyond a memory, which no design may have.
#define CXXRTL_ASSERT(condition) \
    do { \
        if (__builtin_expect(!(condition), 0)) std::abort(); \
    } while (0)

namespace cxxrtl {

using chunk_t = uint32_t;
using word_t = uint64_t;
constexpr size_t WORD_BITS = 64;
constexpr size_t CHUNK_WIDTH = 32;

// The `bits` least significant bits of a word; all of them from 64 on.
constexpr word_t ones(size_t bits) {
    return bits >= WORD_BITS ? ~word_t(0) : (word_t(1) << bits) - 1;
}

template <size_t Bits> struct value;
template <size_t Bits, size_t Stop, size_t Start> struct slice_place;
template <class High, class Low> struct concat_place;

// What can stand on the left of an assignment.
template <class T> struct is_place : std::false_type {};
template <size_t Bits> struct is_place<value<Bits> &> : std::true_type {};
template <size_t Bits, size_t Stop, size_t Start>
struct is_place<slice_place<Bits, Stop, Start>> : std::true_type {};
template <class High, class Low> struct is_place<concat_place<High, Low>> : std::true_type {};

template <size_t A, size_t B>
value<A + B> join(const value<A> &high, const value<B> &low);

// Each word of a value by its index, a constant: `each` is called with those below Words.
template <size_t... I, class Each>
TIDEGATE_INLINE void for_each_word(std::index_sequence<I...>, Each each) {
    (each(std::integral_constant<size_t, I>{}), ...);
}
template <size_t Words, class Each> TIDEGATE_INLINE void for_words(Each each) {
    for_each_word(std::make_index_sequence<Words>{}, each);
}

struct uninitialized {};

template <size_t Bits> struct value {
    static constexpr size_t bits = Bits;
    static constexpr size_t words = (Bits + WORD_BITS - 1) / WORD_BITS;
    using storage_t = std::conditional_t<Bits <= CHUNK_WIDTH, uint32_t, word_t>;
    static constexpr size_t chunks = words * sizeof(storage_t) / sizeof(chunk_t);
    // Bits of the last word that are used.
    static constexpr size_t last_bits = Bits - (words - 1) * WORD_BITS;

    storage_t data[words];

    constexpr value() : data{} {}
    explicit value(uninitialized) {}
    // 32 bits each, the least significant first.
    template <typename... Init,
              typename = std::enable_if_t<(sizeof...(Init) > 0) && (std::is_integral_v<Init> && ...)>>
    explicit constexpr value(Init... init) : data{} {
        fill<0>(uint32_t(init)...);
    }
    value(const value &) = default;
    value &operator=(const value &) = default;

    // Of the lower bits of a word; for values of one word.
    TIDEGATE_INLINE static value of(word_t word) {
        value result{uninitialized{}};
        result.data[0] = storage_t(word & ones(Bits));
        return result;
    }

    const value &val() const { return *this; }

    // -- words -----------------------------------------------------------------------------------

    // Word `I`; 0 beyond the value.
    template <size_t I> TIDEGATE_INLINE word_t word() const {
        if constexpr (I < words) return data[I];
        else return 0;
    }

    TIDEGATE_INLINE bool is_neg() const { return word<words - 1>() >> (last_bits - 1) & 1; }

    // Word `I` of the value extended without end: by its sign, or by 0.
    template <bool Signed, size_t I> TIDEGATE_INLINE word_t extended() const {
        if constexpr (!Signed || I + 1 < words) {
            return word<I>();
        } else if constexpr (I + 1 == words) {
            constexpr size_t unused = WORD_BITS - last_bits;
            return word_t(int64_t(word<I>() << unused) >> unused);
        } else {
            return is_neg() ? ~word_t(0) : 0;
        }
    }

    // The 64 bits from bit `Start` on; 0 beyond the value.
    template <size_t Start> TIDEGATE_INLINE word_t window() const {
        constexpr size_t index = Start / WORD_BITS, shift = Start % WORD_BITS;
        if constexpr (shift == 0) return word<index>();
        else if constexpr (index + 1 < words)
            return word<index>() >> shift | word<index + 1>() << (WORD_BITS - shift);
        else return word<index>() >> shift;
    }

    // Bits that the value does not have are dropped.
    template <size_t I> TIDEGATE_INLINE void put(word_t word) {
        data[I] = storage_t(I + 1 == words ? word & ones(last_bits) : word);
    }

    // -- parts -----------------------------------------------------------------------------------

    template <size_t Stop, size_t Start> TIDEGATE_INLINE value<Stop - Start + 1> part() const {
        using result_t = value<Stop - Start + 1>;
        if constexpr (result_t::words == 1) {
            if constexpr (Start % WORD_BITS + result_t::bits <= WORD_BITS)
                return result_t::of(word<Start / WORD_BITS>() >> (Start % WORD_BITS));
            else return result_t::of(window<Start>());
        } else {
            result_t result{uninitialized{}};
            for_words<result_t::words>([&](auto i) {
                result.template put<i>(window<Start + WORD_BITS * i>());
            });
            return result;
        }
    }

    template <size_t Stop, size_t Start>
    TIDEGATE_INLINE void set_part(const value<Stop - Start + 1> &source) {
        constexpr size_t first = Start / WORD_BITS, shift = Start % WORD_BITS;
        for_words<Stop / WORD_BITS - first + 1>([&](auto i) {
            constexpr size_t index = first + i;
            constexpr size_t from = i == 0 ? shift : 0;
            constexpr size_t to = index == Stop / WORD_BITS ? Stop % WORD_BITS : WORD_BITS - 1;
            constexpr word_t mask = ones(to - from + 1) << from;
            word_t bits;
            if constexpr (i == 0) bits = source.template word<0>() << shift;
            else bits = source.template window<WORD_BITS * i - shift>();
            data[index] = storage_t((data[index] & ~mask) | (bits & mask));
        });
    }

    template <size_t Stop, size_t Start = Stop>
    TIDEGATE_INLINE slice_place<Bits, Stop, Start> slice() & {
        return {*this};
    }
    template <size_t Stop, size_t Start = Stop>
    TIDEGATE_INLINE value<Stop - Start + 1> slice() const & {
        return part<Stop, Start>();
    }
    template <size_t Stop, size_t Start = Stop>
    TIDEGATE_INLINE value<Stop - Start + 1> slice() && {
        return part<Stop, Start>();
    }

    template <class Other> TIDEGATE_INLINE auto concat(Other &&other) & {
        if constexpr (is_place<Other>::value) return concat_place<value &, Other>{*this, other};
        else return join(*this, other.val());
    }
    template <class Other> TIDEGATE_INLINE auto concat(Other &&other) const & {
        return join(*this, other.val());
    }
    template <class Other> TIDEGATE_INLINE auto concat(Other &&other) && {
        return join(*this, other.val());
    }

    // Of a single bit.
    template <size_t Count> TIDEGATE_INLINE value<Count> repeat() const {
        static_assert(Bits == 1);
        value<Count> result{uninitialized{}};
        for_words<decltype(result)::words>([&](auto i) { result.template put<i>(-word_t(data[0])); });
        return result;
    }

    // -- as a whole ------------------------------------------------------------------------------

    template <class Integer> TIDEGATE_INLINE void set(Integer number) {
        static_assert(words == 1);
        data[0] = storage_t(word_t(number) & ones(Bits));
    }
    template <class Integer> TIDEGATE_INLINE Integer get() const {
        static_assert(words == 1);
        return Integer(data[0]);
    }

    TIDEGATE_INLINE explicit operator bool() const {
        if constexpr (words == 1) {
            return data[0] != 0;
        } else {
            word_t any = 0;
            for_words<words>([&](auto i) { any |= data[i]; });
            return any != 0;
        }
    }

    TIDEGATE_INLINE bool operator==(const value &other) const {
        word_t differ = 0;
        for_words<words>([&](auto i) { differ |= data[i] ^ other.data[i]; });
        return differ == 0;
    }
    TIDEGATE_INLINE bool operator!=(const value &other) const { return !(*this == other); }

    // `source` where `mask` is 1.
    TIDEGATE_INLINE void take(const value &source, const value &mask) {
        for_words<words>([&](auto i) {
            data[i] = (data[i] & ~mask.data[i]) | (source.data[i] & mask.data[i]);
        });
    }

  private:
    template <size_t I> constexpr void fill() {}
    template <size_t I> constexpr void fill(uint32_t low) { data[I] = low; }
    template <size_t I, typename... More>
    constexpr void fill(uint32_t low, uint32_t high, More... more) {
        data[I] = storage_t(low | word_t(high) << CHUNK_WIDTH);
        if constexpr (sizeof...(More) > 0) fill<I + 1>(more...);
    }
};

// A part of a value, to be read or assigned to.
template <size_t Bits, size_t Stop, size_t Start> struct slice_place {
    using value_t = value<Stop - Start + 1>;
    value<Bits> &whole;

    TIDEGATE_INLINE value_t val() const { return whole.template part<Stop, Start>(); }
    TIDEGATE_INLINE operator value_t() const { return val(); }
    TIDEGATE_INLINE void operator=(const value_t &source) const {
        whole.template set_part<Stop, Start>(source);
    }
    template <size_t S, size_t T = S> TIDEGATE_INLINE slice_place<Bits, Start + S, Start + T> slice() {
        return {whole};
    }
    template <class Other> TIDEGATE_INLINE auto concat(Other &&other) const {
        using other_t = std::conditional_t<std::is_lvalue_reference_v<Other>, Other,
                                           std::remove_cv_t<std::remove_reference_t<Other>>>;
        if constexpr (is_place<other_t>::value)
            return concat_place<slice_place, other_t>{*this, other};
        else return join(val(), other.val());
    }
};

// Two places side by side, to be read or assigned to.
template <class High, class Low> struct concat_place {
    High high;
    Low low;
    using high_t = std::decay_t<decltype(std::declval<High>().val())>;
    using low_t = std::decay_t<decltype(std::declval<Low>().val())>;
    using value_t = value<high_t::bits + low_t::bits>;

    TIDEGATE_INLINE value_t val() const { return join(high.val(), low.val()); }
    TIDEGATE_INLINE operator value_t() const { return val(); }
    TIDEGATE_INLINE void operator=(const value_t &source) {
        high = source.template part<value_t::bits - 1, low_t::bits>();
        low = source.template part<low_t::bits - 1, 0>();
    }
    template <class Other> TIDEGATE_INLINE auto concat(Other &&other) const {
        using other_t = std::conditional_t<std::is_lvalue_reference_v<Other>, Other,
                                           std::remove_cv_t<std::remove_reference_t<Other>>>;
        if constexpr (is_place<other_t>::value)
            return concat_place<concat_place, other_t>{*this, other};
        else return join(val(), other.val());
    }
    template <size_t Stop, size_t Start = Stop>
    TIDEGATE_INLINE value<Stop - Start + 1> slice() const {
        return val().template part<Stop, Start>();
    }
};

template <size_t A, size_t B>
TIDEGATE_INLINE value<A + B> join(const value<A> &high, const value<B> &low) {
    if constexpr (A + B <= WORD_BITS) {
        return value<A + B>::of(word_t(high.data[0]) << B | low.data[0]);
    } else {
        value<A + B> result{uninitialized{}};
        for_words<decltype(result)::words>([&](auto i) {
            constexpr size_t from = WORD_BITS * i;
            if constexpr (from + WORD_BITS <= B)
                result.template put<i>(low.template word<i>());
            else if constexpr (from < B)
                result.template put<i>(low.template word<i>() |
                                       high.template word<0>() << (B - from));
            else result.template put<i>(high.template window<from - B>());
        });
        return result;
    }
}

// -- registers and memories ----------------------------------------------------------------------

template <size_t Bits> struct wire {
    static constexpr size_t bits = Bits;
    value<Bits> curr, next;

    wire() = default;
    template <typename... Init> explicit constexpr wire(Init... init) : curr{init...}, next{init...} {}
    wire(const wire &) = delete;
    wire &operator=(const wire &) = delete;
    wire(wire &&) = default;
    wire &operator=(wire &&) = default;

    template <class Observer> bool commit(Observer &observer) {
        if (curr == next) return false;
        observer.on_update(curr.chunks, reinterpret_cast<const chunk_t *>(curr.data),
                           reinterpret_cast<const chunk_t *>(next.data));
        curr = next;
        return true;
    }
};

template <size_t Width> struct memory {
    struct write {
        size_t index;
        value<Width> data, mask;
        int priority;
    };

    const size_t depth;
    std::unique_ptr<value<Width>[]> data;
    std::vector<write> write_queue;

    explicit memory(size_t depth) : depth(depth), data(new value<Width>[depth]) {}

    const value<Width> &operator[](size_t index) const { return data[index]; }

    // Writes of the same cycle take effect in the order of their priorities.
    void update(size_t index, const value<Width> &source, const value<Width> &mask, int priority) {
        auto place = write_queue.end();
        while (place != write_queue.begin() && std::prev(place)->priority > priority) --place;
        write_queue.insert(place, write{index, source, mask, priority});
    }

    template <class Observer> bool commit(Observer &observer) {
        bool changed = false;
        for (const write &entry : write_queue) {
            value<Width> word = data[entry.index];
            word.take(entry.data, entry.mask);
            if (word != data[entry.index]) {
                observer.on_update(word.chunks, reinterpret_cast<const chunk_t *>(data.get()),
                                   reinterpret_cast<const chunk_t *>(word.data), entry.index);
                changed = true;
            }
            data[entry.index] = word;
        }
        write_queue.clear();
        return changed;
    }
};

struct observer {
    void on_update(size_t, const chunk_t *, const chunk_t *) {}
    void on_update(size_t, const chunk_t *, const chunk_t *, size_t) {}
};

struct performer {};
struct interior {};

struct module {
    module() = default;
    module(const module &) = delete;
    module &operator=(const module &) = delete;
    virtual ~module() = default;
    virtual void reset() = 0;
    virtual bool eval(performer *performer = nullptr) = 0;
    virtual bool commit() = 0;

    // Until nothing changes any more.
    void step() {
        bool converged;
        do converged = eval();
        while (commit() && !converged);
    }
};

}  // namespace cxxrtl

// -- cells -----------------------------------------------------------------------------------------

namespace cxxrtl_yosys {

using namespace cxxrtl;

struct memory_index {
    bool valid;
    size_t index;

    template <size_t Bits>
    TIDEGATE_INLINE memory_index(const value<Bits> &address, size_t offset, size_t depth)
        : valid(address.data[0] >= offset && address.data[0] < offset + depth),
          index(address.data[0] - offset) {
        static_assert(Bits <= CHUNK_WIDTH);
    }
};

template <size_t Y> TIDEGATE_INLINE value<Y> truth(bool condition) {
    return value<Y>{condition ? 1u : 0u};
}

// A cell's two forms, of unsigned and of signed operands, from one function that is told which.
#define TIDEGATE_FORMS_1(FUNCTION, UNSIGNED, SIGNED) \
    template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> UNSIGNED(const value<A> &a) { \
        return FUNCTION<false, Y>(a); \
    } \
    template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> SIGNED(const value<A> &a) { \
        return FUNCTION<true, Y>(a); \
    }
#define TIDEGATE_FORM_2(FUNCTION, NAME, ...) \
    template <size_t Y, size_t A, size_t B> \
    TIDEGATE_INLINE value<Y> NAME(const value<A> &a, const value<B> &b) { \
        return FUNCTION<__VA_ARGS__, Y>(a, b); \
    }
#define TIDEGATE_FORMS_2(FUNCTION, UNSIGNED, SIGNED) \
    TIDEGATE_FORM_2(FUNCTION, UNSIGNED, false) \
    TIDEGATE_FORM_2(FUNCTION, SIGNED, true)

// Word by word.
#define TIDEGATE_BITWISE(FUNCTION, UNSIGNED, SIGNED, EXPRESSION) \
    template <bool Signed, size_t Y, size_t A, size_t B> \
    TIDEGATE_INLINE value<Y> FUNCTION(const value<A> &a, const value<B> &b) { \
        value<Y> result{uninitialized{}}; \
        for_words<decltype(result)::words>([&](auto i) { \
            word_t x = a.template extended<Signed, i>(), y = b.template extended<Signed, i>(); \
            result.template put<i>(EXPRESSION); \
        }); \
        return result; \
    } \
    TIDEGATE_FORMS_2(FUNCTION, UNSIGNED, SIGNED)

TIDEGATE_BITWISE(bitwise_and, and_uu, and_ss, x & y)
TIDEGATE_BITWISE(bitwise_or, or_uu, or_ss, x | y)
TIDEGATE_BITWISE(bitwise_xor, xor_uu, xor_ss, x ^ y)
TIDEGATE_BITWISE(bitwise_xnor, xnor_uu, xnor_ss, ~(x ^ y))

template <bool Signed, size_t Y, size_t A> TIDEGATE_INLINE value<Y> extend(const value<A> &a) {
    value<Y> result{uninitialized{}};
    for_words<decltype(result)::words>([&](auto i) {
        result.template put<i>(a.template extended<Signed, i>());
    });
    return result;
}
TIDEGATE_FORMS_1(extend, pos_u, pos_s)

template <bool Signed, size_t Y, size_t A> TIDEGATE_INLINE value<Y> invert(const value<A> &a) {
    value<Y> result{uninitialized{}};
    for_words<decltype(result)::words>([&](auto i) {
        result.template put<i>(~a.template extended<Signed, i>());
    });
    return result;
}
TIDEGATE_FORMS_1(invert, not_u, not_s)

// -- of all bits of an operand ---------------------------------------------------------------------

template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> reduce_bool(const value<A> &a) {
    return truth<Y>(bool(a));
}
template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> reduce_or(const value<A> &a) {
    return truth<Y>(bool(a));
}
template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> logic_not(const value<A> &a) {
    return truth<Y>(!bool(a));
}
template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> reduce_and(const value<A> &a) {
    return truth<Y>(!bool(not_u<A>(a)));
}
template <size_t A> TIDEGATE_INLINE bool parity(const value<A> &a) {
    word_t folded = 0;
    for_words<value<A>::words>([&](auto i) { folded ^= a.data[i]; });
    return __builtin_parityll(folded);
}
template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> reduce_xor(const value<A> &a) {
    return truth<Y>(parity(a));
}
template <size_t Y, size_t A> TIDEGATE_INLINE value<Y> reduce_xnor(const value<A> &a) {
    return truth<Y>(!parity(a));
}
template <size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> logic_and(const value<A> &a, const value<B> &b) {
    return truth<Y>(bool(a) && bool(b));
}
template <size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> logic_or(const value<A> &a, const value<B> &b) {
    return truth<Y>(bool(a) || bool(b));
}

// -- comparisons -----------------------------------------------------------------------------------

template <size_t A, size_t B>
constexpr size_t words_of_both = std::max(value<A>::words, value<B>::words);

template <bool Signed, size_t A, size_t B>
TIDEGATE_INLINE bool equal(const value<A> &a, const value<B> &b) {
    word_t differ = 0;
    for_words<words_of_both<A, B>>([&](auto i) {
        differ |= a.template extended<Signed, i>() ^ b.template extended<Signed, i>();
    });
    return differ == 0;
}

template <bool Signed, size_t A, size_t B>
TIDEGATE_INLINE bool less(const value<A> &a, const value<B> &b) {
    // From the least significant word on, each decides what those below it have left open.
    bool result = false;
    for_words<words_of_both<A, B>>([&](auto i) {
        word_t x = a.template extended<Signed, i>(), y = b.template extended<Signed, i>();
        constexpr bool by_sign = Signed && i + 1 == words_of_both<A, B>;
        bool below = by_sign ? int64_t(x) < int64_t(y) : x < y;
        if constexpr (i == 0) result = below;
        else result = below || (x == y && result);
    });
    return result;
}

#define TIDEGATE_COMPARISON(UNSIGNED, SIGNED, EXPRESSION) \
    template <size_t Y, size_t A, size_t B> \
    TIDEGATE_INLINE value<Y> UNSIGNED(const value<A> &a, const value<B> &b) { \
        constexpr bool Signed = false; \
        return truth<Y>(EXPRESSION); \
    } \
    template <size_t Y, size_t A, size_t B> \
    TIDEGATE_INLINE value<Y> SIGNED(const value<A> &a, const value<B> &b) { \
        constexpr bool Signed = true; \
        return truth<Y>(EXPRESSION); \
    }

TIDEGATE_COMPARISON(eq_uu, eq_ss, (equal<Signed>(a, b)))
TIDEGATE_COMPARISON(ne_uu, ne_ss, (!equal<Signed>(a, b)))
TIDEGATE_COMPARISON(eqx_uu, eqx_ss, (equal<Signed>(a, b)))
TIDEGATE_COMPARISON(nex_uu, nex_ss, (!equal<Signed>(a, b)))
TIDEGATE_COMPARISON(lt_uu, lt_ss, (less<Signed>(a, b)))
TIDEGATE_COMPARISON(gt_uu, gt_ss, (less<Signed>(b, a)))
TIDEGATE_COMPARISON(ge_uu, ge_ss, (!less<Signed>(a, b)))
TIDEGATE_COMPARISON(le_uu, le_ss, (!less<Signed>(b, a)))

// -- arithmetic, modulo 2^Y ------------------------------------------------------------------------

template <bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> add(const value<A> &a, const value<B> &b) {
    value<Y> result{uninitialized{}};
    bool carry = false;
    for_words<decltype(result)::words>([&](auto i) {
        word_t x = a.template extended<Signed, i>(), sum = x + b.template extended<Signed, i>();
        if constexpr (value<Y>::words > 1) {
            bool out = sum < x;
            if constexpr (i > 0) {
                sum += carry;
                out |= sum < word_t(carry);
            }
            carry = out;
        }
        result.template put<i>(sum);
    });
    return result;
}
TIDEGATE_FORMS_2(add, add_uu, add_ss)

template <bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> subtract(const value<A> &a, const value<B> &b) {
    value<Y> result{uninitialized{}};
    bool borrow = false;
    for_words<decltype(result)::words>([&](auto i) {
        word_t x = a.template extended<Signed, i>(), y = b.template extended<Signed, i>();
        word_t difference = x - y;
        if constexpr (value<Y>::words > 1) {
            bool out = x < y;
            if constexpr (i > 0) {
                out |= difference < word_t(borrow);
                difference -= borrow;
            }
            borrow = out;
        }
        result.template put<i>(difference);
    });
    return result;
}
TIDEGATE_FORMS_2(subtract, sub_uu, sub_ss)

template <bool Signed, size_t Y, size_t A> TIDEGATE_INLINE value<Y> negate(const value<A> &a) {
    return subtract<Signed, Y>(value<A>{}, a);
}
TIDEGATE_FORMS_1(negate, neg_u, neg_s)

template <bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> multiply(const value<A> &a, const value<B> &b) {
    if constexpr (Y <= WORD_BITS) {
        return value<Y>::of(a.template extended<Signed, 0>() * b.template extended<Signed, 0>());
    } else {
        value<Y> x = extend<Signed, Y>(a), y = extend<Signed, Y>(b), result;
        for (size_t i = 0; i < result.words; i++) {
            word_t carry = 0;
            for (size_t j = 0; i + j < result.words; j++) {
                unsigned __int128 sum = (unsigned __int128)x.data[i] * y.data[j] +
                                        result.data[i + j] + carry;
                result.data[i + j] = word_t(sum);
                carry = word_t(sum >> WORD_BITS);
            }
        }
        result.data[result.words - 1] &= ones(result.last_bits);
        return result;
    }
}
TIDEGATE_FORMS_2(multiply, mul_uu, mul_ss)

// -- shifts ----------------------------------------------------------------------------------------

// An amount as a number; every one that moves all of `limit` bits out is `limit`.
template <size_t B> TIDEGATE_INLINE size_t amount_of(const value<B> &b, size_t limit) {
    word_t above = 0;
    for_words<value<B>::words>([&](auto i) {
        if constexpr (i > 0) above |= b.data[i];
    });
    return above || b.data[0] > limit ? limit : size_t(b.data[0]);
}

template <bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> shift_left(const value<A> &a, const value<B> &b) {
    size_t amount = amount_of(b, Y);
    if constexpr (Y <= WORD_BITS) {
        if (amount == Y) return value<Y>{};
        return value<Y>::of(a.template extended<Signed, 0>() << amount);
    } else {
        value<Y> from = extend<Signed, Y>(a), result;
        size_t by = amount / WORD_BITS, shift = amount % WORD_BITS;
        for (size_t i = result.words; i-- > by;) {
            word_t word = from.data[i - by] << shift;
            if (shift && i > by) word |= from.data[i - by - 1] >> (WORD_BITS - shift);
            result.data[i] = word;
        }
        result.data[result.words - 1] &= ones(result.last_bits);
        return result;
    }
}

// Within A bits, filled with 0, or with copies of the sign if `Arithmetic`; then extended to Y.
template <bool Arithmetic, bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> shift_right(const value<A> &a, const value<B> &b) {
    size_t amount = amount_of(b, A);
    if constexpr (A <= WORD_BITS) {
        if constexpr (Arithmetic) {
            size_t most = amount == A ? A - 1 : amount;
            word_t word = word_t(int64_t(a.template extended<true, 0>()) >> most);
            return extend<Signed, Y>(value<A>::of(word));
        } else {
            return extend<Signed, Y>(amount == A ? value<A>{} : value<A>::of(a.data[0] >> amount));
        }
    } else {
        word_t fill = Arithmetic && a.is_neg() ? ~word_t(0) : 0;
        value<A> result{uninitialized{}};
        size_t by = amount / WORD_BITS, shift = amount % WORD_BITS;
        auto at = [&](size_t i) {
            if (i >= a.words) return fill;
            return i + 1 == a.words ? a.data[i] | (fill & ~ones(a.last_bits)) : a.data[i];
        };
        for (size_t i = 0; i < result.words; i++) {
            word_t word = at(i + by) >> shift;
            if (shift) word |= at(i + by + 1) << (WORD_BITS - shift);
            result.data[i] = word;
        }
        result.data[result.words - 1] &= ones(result.last_bits);
        return extend<Signed, Y>(result);
    }
}

// By an amount with a sign: to the left where it is negative.
template <bool Signed, size_t Y, size_t A, size_t B>
TIDEGATE_INLINE value<Y> shift_either(const value<A> &a, const value<B> &b) {
    if (b.is_neg()) return shift_left<Signed, Y>(a, negate<true, B + 1>(b));
    return shift_right<false, Signed, Y>(a, b);
}

TIDEGATE_FORM_2(shift_left, shl_uu, false)
TIDEGATE_FORM_2(shift_left, shl_su, true)
TIDEGATE_FORM_2(shift_left, sshl_uu, false)
TIDEGATE_FORM_2(shift_left, sshl_su, true)
TIDEGATE_FORM_2(shift_right, shr_uu, false, false)
TIDEGATE_FORM_2(shift_right, shr_su, false, true)
TIDEGATE_FORM_2(shift_right, sshr_uu, false, false)
TIDEGATE_FORM_2(shift_right, sshr_su, true, true)
TIDEGATE_FORM_2(shift_right, shift_uu, false, false)
TIDEGATE_FORM_2(shift_right, shift_su, false, true)
TIDEGATE_FORM_2(shift_either, shift_us, false)
TIDEGATE_FORM_2(shift_either, shift_ss, true)
TIDEGATE_FORM_2(shift_right, shiftx_uu, false, false)
TIDEGATE_FORM_2(shift_right, shiftx_su, false, true)
TIDEGATE_FORM_2(shift_either, shiftx_us, false)
TIDEGATE_FORM_2(shift_either, shiftx_ss, true)

}  // namespace cxxrtl_yosys
