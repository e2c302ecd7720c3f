"""Axis labels of this paper's figures."""

LABELS = {"mse": "MSE", "psnr": "PSNR (dB)", "ncc": "NCC"}
