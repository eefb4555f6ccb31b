"""Everything that draws: matches in images, patches, plots and tables.

Pictures are arrays, uint8 [H, W] or BGR [H, W, 3]; `doap_tf.drawing.pictures` writes them.
"""
