"""What quantized All-Reduce costs: errors of tensors, and perplexity of a language model."""
