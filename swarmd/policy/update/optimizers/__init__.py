"""The optimizers an update can step with; each owns the master weights and its own state.

Bytes on the device, for N trained parameters of which E are the input embedding's, and A of adapters; S in tensors of under 4,096:

    | | bfloat16 model | masters | gradients | moments |
    |---|---|---|---|---|
    | adamw | 2 N | 4 N | 4 N | 8 N |
    | adam-8bit | 2 N | 4 N | 4 N | 8 (E + S) + 2.03 (N - E - S) |
    | host | 2 N | - | 4 E of a tied or untied head, and what is on its way | - |
    | host, in the host's memory | - | 4 N | 4 N, kept between steps | 8 N, and 128 MiB of buffers |
    | lora | 2 N + 2 A | 4 A | 4 A | 8 A |

A float32 model takes 4 instead of 2 and needs no masters (on the host it does). Moments are there from the start, gradients from
the first micro-batch to the step; the embedding's own gradient exists once more, in the model's precision, at the end of each
backward. Measured on a CPU in float32 with 57 M parameters, E = 10 M, A = 3.5 M, bytes a parameter at the peak of a step over the
bare process, whose libraries grow by about 0.7: adamw 17.5, adam-8bit 12.6, host 23.8, lora 5.9; the table and the embedding's
gradient say 16.7, 11.8, 23.0 and 5.0.
"""
