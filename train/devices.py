"""What the devices of this machine do fast."""

import torch


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 as fast as float32. Processors without the instructions are far slower."""
    return device.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
