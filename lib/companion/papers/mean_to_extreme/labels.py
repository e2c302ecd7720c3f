"""What the axes of this paper's figures are called."""

LABELS = {"mse": "MSE", "psnr": "PSNR (dB)", "ncc": "NCC"}
