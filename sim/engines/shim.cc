// Clock loop, memories, recording and waveforms around a CXXRTL model, behind a C interface.
//
// Compiled together with the model that Yosys wrote (included below) and a table of its ports and
// memories that sim/engines/cxxrtl.py wrote (TIDEGATE_PORTS, TIDEGATE_MEMORIES). Ports are known by
// their index in that table, so no name is looked up while the clock runs.
//
// One evaluation a cycle: `eval` with the clock just risen computes all combinational values from
// the registers and inputs as they stand before the edge, and the registers' next values; `commit`
// makes those current. Between the two stands exactly what a synchronous memory samples at the
// edge. Combinational outputs are then one evaluation old; `settle` evaluates once more with the
// clock low, and only where somebody looks.

#include TIDEGATE_MODEL
#ifdef TIDEGATE_WAVES
#include <cxxrtl/cxxrtl_vcd.h>
#endif

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include TIDEGATE_TABLE

namespace {

using cxxrtl::chunk_t;
constexpr unsigned CHUNK_BITS = 8 * sizeof(chunk_t);

// A value's bytes as 32-bit words, in whatever it is kept.
typedef uint32_t __attribute__((may_alias)) bits32_t;

struct Port {
    bits32_t *current;  // where the present value stands
    unsigned width;
    bool registered;   // an output that is a register: valid without settling

    unsigned chunks() const { return (width + CHUNK_BITS - 1) / CHUNK_BITS; }
    bool nonzero() const {
        for (unsigned i = 0; i < chunks(); i++)
            if (current[i]) return true;
        return false;
    }
};

template <size_t Bits> bits32_t *bits_of(cxxrtl::value<Bits> &v) {
    return reinterpret_cast<bits32_t *>(v.data);
}
template <size_t Bits> Port port_of(cxxrtl::value<Bits> &v) { return {bits_of(v), Bits, false}; }
template <size_t Bits> Port port_of(cxxrtl::wire<Bits> &w) { return {bits_of(w.curr), Bits, true}; }

// A rank's memory. The bytes are one reservation of address space, which the operating system
// backs with zeroed pages as they are touched.
struct Memory {
    Port read_enable, read_address, read_data;
    Port write_enable, write_address, write_data, write_strobe;
    size_t word_bytes, total_bytes;
    uint8_t *bytes;

    size_t word(const Port &address) const {
        size_t index = address.current[0];
        if (address.width > CHUNK_BITS) index |= size_t(address.current[1]) << CHUNK_BITS;
        return index * word_bytes;
    }

    // At a rising edge: a read takes the old word.
    void edge() {
        if (read_enable.current[0])
            std::memcpy(read_data.current, bytes + word(read_address), word_bytes);
        if (!write_enable.current[0]) return;
        uint8_t *target = bytes + word(write_address);
        const uint8_t *source = reinterpret_cast<const uint8_t *>(write_data.current);
        for (size_t base = 0; base < word_bytes; base += CHUNK_BITS) {
            size_t count = word_bytes - base < CHUNK_BITS ? word_bytes - base : CHUNK_BITS;
            chunk_t strobe = write_strobe.current[base / CHUNK_BITS];
            chunk_t all = count == CHUNK_BITS ? ~chunk_t(0) : (chunk_t(1) << count) - 1;
            if (strobe == all) {
                std::memcpy(target + base, source + base, count);
            } else {
                for (size_t i = 0; i < count; i++)
                    if (strobe >> i & 1) target[base + i] = source[base + i];
            }
        }
    }
};

using Clock = std::chrono::steady_clock;

#if TIDEGATE_ADVANCE
void advance(cxxrtl_design::p_top &top) { top.advance(); }
void discard(cxxrtl_design::p_top &top) { top.discard(); }
#else
// Committed with this observer, registers and memories stay as they are: it is called with each new
// value before that is taken, and puts the present one in its place.
struct Discard {
    void on_update(size_t chunks, const chunk_t *now, const chunk_t *next) {
        std::memcpy(const_cast<chunk_t *>(next), now, chunks * sizeof(chunk_t));
    }
    void on_update(size_t chunks, const chunk_t *words, const chunk_t *next, size_t index) {
        on_update(chunks, words + index * chunks, next);
    }
};
void advance(cxxrtl_design::p_top &top) { top.commit(); }
void discard(cxxrtl_design::p_top &top) {
    Discard observer;
    top.commit(observer);
}
#endif

struct Engine {
    cxxrtl_design::p_top top;
    std::vector<Port> ports;
    std::vector<Memory> memories;
    uint64_t cycle = 0;
    bool settled = false;
    double seconds = 0;

    std::vector<unsigned> triggers, values;
    size_t row_chunks = 0;
    std::vector<uint64_t> record_cycles;
    std::vector<chunk_t> record_values;

    Engine() {
        TIDEGATE_PORTS
        TIDEGATE_MEMORIES
    }

    ~Engine() {
        for (Memory &memory : memories) munmap(memory.bytes, memory.total_bytes);
        stop_vcd();
    }

    bool reserve() {
        for (Memory &memory : memories) {
            void *base = mmap(nullptr, memory.total_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (base == MAP_FAILED) {
                memories.resize(&memory - memories.data());
                return false;
            }
            memory.bytes = static_cast<uint8_t *>(base);
        }
        return true;
    }

    void settle() {
        if (settled) return;
        top.p_clk.set(false);
        if (TIDEGATE_SINGLE_PASS) top.eval();
        else top.step();
        top.prev_p_clk.set(false);
        settled = true;
    }

    void record() {
        for (unsigned trigger : triggers)
            if (ports[trigger].nonzero()) {
                record_cycles.push_back(cycle);
                for (unsigned value : values)
                    record_values.insert(record_values.end(), ports[value].current,
                                         ports[value].current + ports[value].chunks());
                return;
            }
    }

    // A rising edge. Registers are current afterwards, combinational outputs are not. With `until`,
    // there is no edge if that port is 1 just before it, and the return value says so.
    bool edge(const Port *until) {
        if (!TIDEGATE_SINGLE_PASS) settle();
        top.p_clk.set(true);
        top.eval();
        if (until && until->current[0]) {
            discard(top);
            top.prev_p_clk.set(false);
            settled = false;
            return false;
        }
        if (!triggers.empty()) record();
        for (Memory &memory : memories) memory.edge();
        advance(top);
        if (!TIDEGATE_SINGLE_PASS) top.step();
        top.prev_p_clk.set(false);  // the falling edge, on which nothing depends
        cycle++;
        settled = false;
        return true;
    }

    // At most `cycles` rising edges, and no further one once `until` is 1 after one of them. A
    // combinational port is looked at in the evaluation that the next edge needs anyway.
    uint64_t run(uint64_t cycles, const Port *until) {
        auto start = Clock::now();
        uint64_t done = 0;
        while (done < cycles) {
            if (waves_wanted()) {
                auto paused = Clock::now();
                settle();
                if (done && until && until->current[0]) break;
                sample_vcd();
                start += Clock::now() - paused;
            }
            if (!edge(done ? until : nullptr)) break;
            done++;
        }
        seconds += std::chrono::duration<double>(Clock::now() - start).count();
        return done;
    }

#ifdef TIDEGATE_WAVES
    static constexpr uint64_t FEMTOSECONDS = 1000000000000000;
    static constexpr size_t FLUSH_BYTES = 1 << 20;
    FILE *file = nullptr;
    cxxrtl::vcd_writer *writer = nullptr;
    bool sampled = false;
    uint64_t first = 0, last = 0, period = 0, sampled_cycle = 0;

    bool waves_wanted() const { return file && cycle >= first && cycle <= last; }

    bool start_vcd(const char *path, uint64_t from, uint64_t to, uint64_t clock_hz) {
        file = fopen(path, "w");
        if (!file) return false;
        sampled = false;
        first = from, last = to, period = FEMTOSECONDS / clock_hz;
        writer = new cxxrtl::vcd_writer;
        writer->timescale(1, "fs");
        cxxrtl::debug_items items;
        cxxrtl::debug_scopes scopes;
        top.debug_info(&items, &scopes, "bench ");
        // The clock comes first, so its identifier is "!" (see sample_vcd).
        for (auto &part : items.table.at("bench clk")) writer->add("bench clk", part);
        for (auto &[name, parts] : items.table) {
            // Names with "port$" are wires between modules that Amaranth numbers.
            if (name == "bench clk" || name.find("port$") != std::string::npos) continue;
            for (auto &part : parts)
                if (part.type != cxxrtl::debug_item::MEMORY)
                    writer->add(escaped(name), part, parts.size() > 1);
        }
        return true;
    }

    // Struct fields have dots in their names; GTKWave finds such names only behind a backslash.
    static std::string escaped(const std::string &name) {
        size_t leaf = name.rfind(' ') + 1;
        if (name.find('.', leaf) == std::string::npos) return name;
        return name.substr(0, leaf) + '\\' + name.substr(leaf);
    }

    // One sample a cycle, just before the edge that ends it and dated to its beginning, so that
    // inputs stand beside the registers they meet. The clock's edges are written by hand.
    void sample_vcd() {
        settle();
        sampled = true;
        sampled_cycle = cycle;
        writer->sample(cycle * period);
        if (cycle) writer->buffer += "1!\n";
        writer->buffer += "#" + std::to_string(cycle * period + period / 2) + "\n0!\n";
        if (writer->buffer.size() > FLUSH_BYTES) flush_vcd();
    }

    void flush_vcd() {
        fwrite(writer->buffer.data(), 1, writer->buffer.size(), file);
        writer->buffer.clear();
    }

    void stop_vcd() {
        if (!file) return;
        // The cycle that has begun; and if the window never came, a header and the last values.
        if (!sampled || (waves_wanted() && sampled_cycle != cycle)) sample_vcd();
        flush_vcd();
        fclose(file);
        delete writer;
        file = nullptr;
    }
#else
    bool waves_wanted() const { return false; }
    void sample_vcd() {}
    bool start_vcd(const char *, uint64_t, uint64_t, uint64_t) { return false; }
    void stop_vcd() {}
#endif
};

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Engine *tidegate_create() {
    Engine *engine = new Engine;
    if (engine->reserve()) return engine;
    delete engine;
    return nullptr;
}

void tidegate_destroy(Engine *engine) { delete engine; }

void tidegate_set(Engine *engine, unsigned port, const chunk_t *words) {
    Port &target = engine->ports[port];
    std::memcpy(target.current, words, target.chunks() * sizeof(chunk_t));
    engine->settled = false;
}

void tidegate_get(Engine *engine, unsigned port, chunk_t *words) {
    Port &source = engine->ports[port];
    if (!source.registered) engine->settle();
    std::memcpy(words, source.current, source.chunks() * sizeof(chunk_t));
}

uint64_t tidegate_run(Engine *engine, uint64_t cycles, int until) {
    return engine->run(cycles, until < 0 ? nullptr : &engine->ports[until]);
}

uint64_t tidegate_cycle(Engine *engine) { return engine->cycle; }

double tidegate_seconds(Engine *engine) { return engine->seconds; }

void tidegate_load(Engine *engine, unsigned memory, uint64_t address, const void *data,
                   uint64_t length) {
    std::memcpy(engine->memories[memory].bytes + address, data, length);
}

void tidegate_read(Engine *engine, unsigned memory, uint64_t address, void *data,
                   uint64_t length) {
    std::memcpy(data, engine->memories[memory].bytes + address, length);
}

void tidegate_record(Engine *engine, const unsigned *triggers, unsigned trigger_count,
                     const unsigned *values, unsigned value_count) {
    engine->triggers.assign(triggers, triggers + trigger_count);
    engine->values.assign(values, values + value_count);
    engine->record_cycles.clear();
    engine->record_values.clear();
}

uint64_t tidegate_recorded(Engine *engine) { return engine->record_cycles.size(); }

const uint64_t *tidegate_recorded_cycles(Engine *engine) { return engine->record_cycles.data(); }

const chunk_t *tidegate_recorded_values(Engine *engine) { return engine->record_values.data(); }

int tidegate_start_vcd(Engine *engine, const char *path, uint64_t first, uint64_t last,
                       uint64_t clock_hz) {
    return engine->start_vcd(path, first, last, clock_hz);
}

void tidegate_stop_vcd(Engine *engine) { engine->stop_vcd(); }

}  // extern "C"
#pragma GCC visibility pop
