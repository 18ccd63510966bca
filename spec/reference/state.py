"""state.md: what a decoder of diana remembers."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import container
from reference.container import DECODERS, STATE_FILE
from reference.reading import Usage, require

def check_layout(header):
    require(header.side is None, "side information of a state")
    for tensor in header.schema.tensors:
        require(tensor.scheme.text == "raw" and tensor.type.name == "f8", "a vector that is not float64 by raw")


def memory_for(header, state_data):
    """{name: vector h} for the message of `header`, of zeros for what is not in it."""
    tensors = [tensor for tensor in header.schema.tensors if tensor.scheme.known and tensor.scheme.memory() == "diana"]
    if not tensors:
        require(state_data is None, "a state has no place here: no decoder of these schemes remembers", Usage)
        return {}
    if state_data is None:
        require(header.previous == 0, "a message that is not the first is decoded with a state", Usage)
        return {}
    state = container.read_file(state_data)
    said = state.header
    require(said.kind == STATE_FILE, "a state is expected", Usage)
    require(said.state == (DECODERS, "diana"), "a state of an encoder, or of another memory")
    check_layout(said)
    require((said.seed, said.worker) == (header.seed or 0, header.worker), "a state of another seed or worker")
    require(header.step in (None, said.step), "a state of another step")
    require(said.previous == header.previous, "a state of another past")
    vectors = {tensor.name: tensor.shape for tensor in said.schema.tensors}
    require(vectors == {"h/" + tensor.name: tensor.shape for tensor in tensors}, "a state of other tensors")
    return {tensor.name: np.frombuffer(b"".join(state.decoders["h/" + tensor.name].parts), "<f8").copy()
            for tensor in tensors}
