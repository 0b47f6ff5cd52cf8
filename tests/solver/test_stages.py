"""The staged form, its reductions, and the units of memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rematopt.graph import Data, Graph, Kind, Op, Phase, Recompute
from rematopt.solver.baselines import runs_from_scratch
from rematopt.solver.presolve import Reduction, fused_ops, negligible_data
from rematopt.solver.scaling import MOST_UNITS, units_for
from rematopt.solver.sequence import pruned
from rematopt.solver.stages import recomputable_ops, staged


def chain(*, never: tuple[int, ...] = ()) -> Graph:
    """Forward ops 0 -> 1 -> 2 -> loss 3, then backward ops 4 (reads 2), 5, 6 (reads 0)."""
    forward, backward = Phase.FORWARD, Phase.BACKWARD
    reads: tuple[tuple[Phase, tuple[int, ...]], ...] = (
        (forward, ()), (forward, (0,)), (forward, (1,)), (forward, (2,)),
        (backward, (2, 3)), (backward, (4,)), (backward, (0, 5)),
    )  # fmt: skip
    ops = tuple(
        Op(
            name=f"op{i}",
            target="t",
            phase=phase,
            inputs=inputs,
            outputs=(i,),
            seconds=1.0,
            recompute=Recompute.NEVER if i in never else Recompute.FREE,
        )
        for i, (phase, inputs) in enumerate(reads)
    )
    kinds = {3: Kind.OUTPUT, 6: Kind.GRADIENT}
    data = tuple(Data(bytes=10, producer=i, kind=kinds.get(i, Kind.ACTIVATION)) for i in range(7))
    return Graph(ops=ops, data=data)


def test_segments_begin_where_backward_reads_forward_data():
    stages = staged(chain())
    assert stages.starts == (0, 4, 6)
    assert stages.again == ((), (0, 1, 2), (0,))
    assert [slot.op for slot in stages.slots] == [0, 1, 2, 3, 0, 1, 2, 4, 5, 0, 6]
    assert stages.choices == 4


def test_what_may_not_run_again_is_no_choice():
    stages = staged(chain(never=(1,)))
    assert recomputable_ops(chain(never=(1,))) == {0, 2, 3}
    assert stages.again == ((), (0, 2), (0,))


def test_everywhere_means_a_segment_an_op():
    stages = staged(chain(), everywhere=True)
    assert stages.starts == tuple(range(7))
    assert 4 in recomputable_ops(chain(), everywhere=True)
    assert stages.again[6] == (0, 1, 2, 4, 5)


def test_a_window_holds_what_lies_just_before_the_read_data():
    assert staged(chain(), window=1).again == ((), (2,), (0,))
    assert staged(chain(), window=2).again == ((), (1, 2), (0,))


def test_kept_data_need_no_producer_again():
    reduction = Reduction(keep=frozenset({1}))
    assert staged(chain(), reduction=reduction).again == ((), (0, 2), (0,))


def test_tied_ops_run_again_together():
    reduction = Reduction(tied={1: 2})
    assert reduction.head(1) == 2
    assert staged(chain(), reduction=reduction, window=1).again == ((), (1, 2), (0,))


def test_ties_of_ties_have_one_head():
    reduction = Reduction(tied={0: 1, 1: 2})
    assert [reduction.head(i) for i in range(4)] == [2, 2, 2, 3]


def test_ops_with_one_reader_of_no_smaller_result_are_fused():
    assert fused_ops(chain(), frozenset()) == {1: 2, 4: 5, 5: 6}
    assert 1 not in fused_ops(chain(never=(2,)), frozenset())


def test_negligible_data_stay_below_their_share():
    graph = chain()
    assert negligible_data(graph, 1000, share=0.035) == {0, 1, 2}
    assert negligible_data(graph, 1000, share=0.0) == frozenset()


def test_from_scratch_keeps_nothing():
    assert runs_from_scratch(chain()) == [0, 1, 2, 3, 0, 1, 2, 4, 5, 0, 6]


def test_useless_repeats_are_pruned():
    assert pruned(chain(), [0, 1, 2, 3, 1, 4, 5, 6]) == [0, 1, 2, 3, 4, 5, 6]
    assert pruned(chain(), [0, 1, 2, 3, 4, 5, 0, 6]) == [0, 1, 2, 3, 4, 5, 0, 6]


@given(sizes=st.sets(st.integers(1, 10**12), min_size=1, max_size=5), room=st.integers(1, 10**12))
def test_units_are_few_and_round_to_the_safe_side(sizes, room):
    for optimistic in (False, True):
        units = units_for(sizes, room, optimistic=optimistic)
        assert room // units.bytes <= MOST_UNITS
        for size in sizes:
            if optimistic:
                assert units.size(size) * units.bytes <= size <= units.relief(size) * units.bytes
            else:
                assert units.relief(size) * units.bytes <= size <= units.size(size) * units.bytes
        if units.exact:
            assert all(units.size(size) * units.bytes == size for size in sizes)
    assert units_for(sizes, room).room(room) <= units_for(sizes, room, optimistic=True).room(room)


def test_a_common_divisor_is_the_unit_where_it_is_fine_enough():
    assert units_for({4096, 6144}, 10**6) == units_for({2048}, 10**6)
    assert units_for({4096, 6144}, 10**6).bytes == 2048
    assert units_for({3}, 2**40).bytes == 3 * 2**20
