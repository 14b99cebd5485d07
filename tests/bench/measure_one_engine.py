"""One measurement in a process of its own; run_bench.py starts it. Its last line of output is a JSON object.

measure_one_engine.py lexical|dense|fill|ask ENGINE SIZE FOLDER QUERIES BEGUN
"""

import gc
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "fake_models")]

from bench import end_to_end_engine
from bench.measure_process import disk_mb, memory_mb, percentiles, seconds, times

_COMPARED = 20  # queries whose results are handed over, to be held against those of others


def lexical(name, size, folder, queries):
    from bench import synthetic_posts
    from bench.lexical_engine_contract import ENGINES

    posts = synthetic_posts.make_posts(size)
    documents = [posts.terms(n) for n in range(size)]
    asked = synthetic_posts.draw_queries(posts, queries)
    engine = ENGINES[name](posts, folder)
    gc.freeze()  # the corpus is not the engine's burden
    before = memory_mb()
    row = {"build_s": seconds(lambda: engine.build(documents)), "memory_mb": memory_mb() - before}
    row |= percentiles(times(asked, engine.search)) | percentiles(times(asked, engine.within), "filtered")
    row["found"] = [engine.best(engine.search(query))[:10] for query in asked[:_COMPARED]]
    return row


def dense(name, size, folder, queries):
    from bench.dense_engines import ENGINES, draw, slices
    from bench.synthetic_posts import Frame

    frame = Frame.make(size)
    asked = draw(frame, queries)
    before = memory_mb()
    engine, insert = ENGINES[name](frame, folder), 0.0
    for numbers, rows in slices(size):
        insert += seconds(lambda some=numbers, at=rows: engine.put(some, at))
    row = {"insert_per_s": size / insert}
    row |= percentiles(times(asked, engine.search)) | percentiles(times(asked, engine.within), "filtered")
    row["found"] = [engine.within(near)[:10] for near in asked[:_COMPARED]]
    row["memory_mb"] = memory_mb() - before
    engine.close()
    row |= {"disk_mb": disk_mb(folder), "reopen_s": seconds(engine.reopen)}
    engine.close()
    return row


def main(kind, name, size, folder, queries, begun):
    if kind == "fill":
        return end_to_end_engine.fill(size, folder, queries)
    if kind == "ask":
        return end_to_end_engine.ask(folder, begun)
    return (lexical if kind == "lexical" else dense)(name, size, folder, queries)


if __name__ == "__main__":
    kind, name, size, folder, queries, begun = sys.argv[1:]
    print(json.dumps(main(kind, name, int(size), Path(folder), int(queries), float(begun))))
