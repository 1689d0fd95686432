"""SmolLM2-135M-Instruct in numpy: real activations, cut as tensor parallelism cuts them.

>>> model = Model.load()
>>> model.decode([model.next_token(model.encode("The capital of France is"))])
' Paris'
"""

from sim.llm.gguf_file import ModelMissing
from sim.llm.model import Model
from sim.llm.parallel import AllReduce, Place

__all__ = ["AllReduce", "Model", "ModelMissing", "Place"]
