"""state.md: what a decoder of diana remembers."""
# SPDX-License-Identifier: Apache-2.0
import numpy as np

from reference import container
from reference.reading import Usage, require

DECODERS = 2  # role


def memory_for(header, state_data):
    """{name: vector h} for the message of `header`, of zeros for what is not in it."""
    tensors = [tensor for tensor in header.schema.tensors if tensor.scheme.known and tensor.scheme.memory() == "diana"]
    if not tensors:
        return {}
    if state_data is None:
        require(header.previous == 0, "a message that is not the first is decoded with a state", Usage)
        return {}
    state = container.read_file(state_data)
    said = state.header
    require(said.kind == container.STATE_FILE, "not a state")
    require(said.role == DECODERS and said.memory == "diana", "a state of an encoder, or of another memory")
    require((said.seed, said.worker, said.step) == (header.seed or 0, header.worker, header.step or 0),
            "a state of another seed, worker or step")
    require(said.previous == header.previous, "a state of another past")
    vectors = {tensor.name: tensor.shape for tensor in said.schema.tensors}
    require(vectors == {"h/" + tensor.name: tensor.shape for tensor in tensors}, "a state of other tensors")
    return {tensor.name: np.frombuffer(b"".join(state.decoders["h/" + tensor.name].parts), "<f8").copy()
            for tensor in tensors}
