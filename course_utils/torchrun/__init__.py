"""Units 09 to 12 on real ranks: several GPUs or machines, started by torchrun."""
