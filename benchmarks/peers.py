"""Other people's neighbour search, used as an episodic memory would have to use it: one index for each action.

Each peer has `search(query)`: numbers of the entries that it finds, (n_actions, k), and `write(action, state)`: a new
state in place of the oldest one, or, where a library cannot delete, beside it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

EFFORTS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)  # tried in turn until recall is reached
LINKS = 16
BUILD_EFFORT = 128
CELLS_READ = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)  # the same for cells
CELL_SIZE, SAMPLE = 96, 32  # entries; of each cell that the clustering sees


class Peer(Protocol):
    """What the benchmark asks of a peer."""

    name: str
    deletes: bool
    efforts: tuple[int, ...]

    def set_effort(self, effort: int) -> None: ...

    def search(self, query: np.ndarray) -> np.ndarray: ...

    def write(self, action: int, state: np.ndarray) -> None: ...


class FaissFlat:
    """FAISS, exact. An entry is removed by moving everything behind it."""

    name, deletes, efforts = "FAISS flat", True, (0,)

    def __init__(self, states: np.ndarray, k: int) -> None:
        import faiss

        self._faiss, self._k = faiss, k
        self._indexes = []
        for buffer in states:
            self._indexes.append(faiss.IndexFlatL2(states.shape[2]))
            self._indexes[-1].add(buffer)

    def set_effort(self, effort: int) -> None:
        """There is nothing to set."""

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([index.search(query[None], self._k)[1][0] for index in self._indexes])

    def write(self, action: int, state: np.ndarray) -> None:
        self._indexes[action].remove_ids(self._faiss.IDSelectorRange(0, 1))
        self._indexes[action].add(state[None])


class FaissHnsw:
    """FAISS's graph. It cannot delete: the buffers grow."""

    name, deletes, efforts = "FAISS HNSW", False, EFFORTS

    def __init__(self, states: np.ndarray, k: int) -> None:
        import faiss

        self._k = k
        self._indexes = []
        for buffer in states:
            index = faiss.IndexHNSWFlat(states.shape[2], LINKS)
            index.hnsw.efConstruction = BUILD_EFFORT
            index.add(buffer)
            self._indexes.append(index)

    def set_effort(self, effort: int) -> None:
        for index in self._indexes:
            index.hnsw.efSearch = effort

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([index.search(query[None], self._k)[1][0] for index in self._indexes])

    def write(self, action: int, state: np.ndarray) -> None:
        self._indexes[action].add(state[None])


class FaissCells:
    """FAISS's own cells, about as many as ours, made once of what is stored first; ids lead to entries by a table."""

    name, deletes, efforts = "FAISS IVF-Flat", True, CELLS_READ
    kind = "Flat"

    def __init__(self, states: np.ndarray, k: int) -> None:
        import faiss

        self._faiss, self._k = faiss, k
        self._oldest = np.zeros(len(states), np.int64)
        self._size = states.shape[1]
        self._indexes = []
        for buffer in states:
            cells = max(16, len(buffer) // CELL_SIZE)
            index = faiss.index_factory(states.shape[2], f"IVF{cells},{self.kind}")
            index.train(buffer[:: max(1, len(buffer) // (SAMPLE * cells))])
            if self.deletes:
                index.set_direct_map_type(faiss.DirectMap.Hashtable)
                index.add_with_ids(buffer, np.arange(len(buffer)))
            else:
                index.add(buffer)
            self._indexes.append(index)

    def set_effort(self, effort: int) -> None:
        for index in self._indexes:
            self._faiss.extract_index_ivf(index).nprobe = effort

    def search(self, query: np.ndarray) -> np.ndarray:
        found = np.array([index.search(query[None], self._k)[1][0] for index in self._indexes])
        return found % self._size if self.deletes else found

    def write(self, action: int, state: np.ndarray) -> None:
        index, oldest = self._indexes[action], int(self._oldest[action])
        if not self.deletes:
            index.add(state[None])
            return
        index.remove_ids(self._faiss.IDSelectorArray(np.array([oldest])))
        index.add_with_ids(state[None], np.array([oldest + self._size]))
        self._oldest[action] += 1


class FaissByteCells(FaissCells):
    """The same with a byte a number."""

    name, kind = "FAISS IVF-SQ8", "SQ8"


class FaissProductCells(FaissCells):
    """The same with four bits for two numbers, and true distances of the best. It cannot delete."""

    name, deletes, kind = "FAISS IVF-PQ, fast scan", False, "PQ32x4fs,RFlat"

    def set_effort(self, effort: int) -> None:
        super().set_effort(effort)
        for index in self._indexes:
            index.k_factor = 8


class Scann:
    """ScaNN: cells, four bits for two numbers, and true distances of the best. Used as an index that is built once."""

    name, deletes, efforts = "ScaNN", False, CELLS_READ

    def __init__(self, states: np.ndarray, k: int) -> None:
        import scann

        self._k = k
        self._indexes = []
        for buffer in states:
            cells = max(16, len(buffer) // CELL_SIZE)
            self._indexes.append(
                scann.scann_ops_pybind.builder(buffer, k, "squared_l2")
                .tree(num_leaves=cells, num_leaves_to_search=16, training_sample_size=SAMPLE * cells)
                .score_ah(2, anisotropic_quantization_threshold=float("nan"))
                .reorder(8 * k)
                .build()
            )

    def set_effort(self, effort: int) -> None:
        self._effort = effort

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([index.search(query, leaves_to_search=self._effort)[0] for index in self._indexes])

    def write(self, action: int, state: np.ndarray) -> None:
        """It is not written to."""


class Usearch:
    """usearch, half precision, as it is called from Python."""

    name, deletes, efforts = "usearch", True, EFFORTS

    def __init__(self, states: np.ndarray, k: int) -> None:
        from usearch.index import Index

        self._k = k
        self._next = np.full(len(states), states.shape[1])
        self._size = states.shape[1]
        self._indexes = []
        for buffer in states:
            index = Index(
                ndim=states.shape[2], metric="l2sq", dtype="f16", connectivity=LINKS, expansion_add=BUILD_EFFORT
            )
            index.add(np.arange(len(buffer)), buffer, threads=2)
            self._indexes.append(index)

    def set_effort(self, effort: int) -> None:
        for index in self._indexes:
            index.expansion_search = effort

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([index.search(query, self._k).keys for index in self._indexes])

    def write(self, action: int, state: np.ndarray) -> None:
        key = int(self._next[action])
        self._indexes[action].remove(key - self._size)
        self._indexes[action].add(key, state)
        self._next[action] += 1


class Hnswlib:
    """hnswlib: a deleted entry is marked, and its place taken by the next one."""

    name, deletes, efforts = "hnswlib", True, EFFORTS

    def __init__(self, states: np.ndarray, k: int) -> None:
        import hnswlib

        self._k = k
        self._next = np.full(len(states), states.shape[1])
        self._size = states.shape[1]
        self._indexes = []
        for buffer in states:
            index = hnswlib.Index(space="l2", dim=states.shape[2])
            index.init_index(len(buffer) + 1, M=LINKS, ef_construction=BUILD_EFFORT, allow_replace_deleted=True)
            index.add_items(buffer, np.arange(len(buffer)), num_threads=2)
            self._indexes.append(index)

    def set_effort(self, effort: int) -> None:
        for index in self._indexes:
            index.set_ef(max(effort, self._k))

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([index.knn_query(query, self._k, num_threads=1)[0][0] for index in self._indexes])

    def write(self, action: int, state: np.ndarray) -> None:
        key = int(self._next[action])
        self._indexes[action].mark_deleted(key - self._size)
        self._indexes[action].add_items(state[None], [key], num_threads=1, replace_deleted=True)
        self._next[action] += 1


class KdTree:
    """scikit-learn's k-d tree as the published implementations use it: made anew for every stored state."""

    name, deletes, efforts = "k-d tree", True, (0,)

    def __init__(self, states: np.ndarray, k: int) -> None:
        from sklearn.neighbors import KDTree

        self._tree, self._k = KDTree, k
        self._states = states.copy()
        self._oldest = np.zeros(len(states), np.int64)
        self._trees = [KDTree(buffer) for buffer in self._states]

    def set_effort(self, effort: int) -> None:
        """There is nothing to set."""

    def search(self, query: np.ndarray) -> np.ndarray:
        return np.array([tree.query(query[None], self._k)[1][0] for tree in self._trees])

    def write(self, action: int, state: np.ndarray) -> None:
        self._states[action, self._oldest[action] % self._states.shape[1]] = state
        self._oldest[action] += 1
        self._trees[action] = self._tree(self._states[action])


PEERS: tuple[type[Peer], ...] = (
    FaissFlat, FaissHnsw, FaissCells, FaissByteCells, FaissProductCells, Scann, Usearch, Hnswlib, KdTree,
)  # fmt: skip
