"""The experiments of the DRPU paper, as its code runs them, as its text describes them, and with our recipes.

``python -m paper run`` trains the models and writes one line for each result into the files of
``paper/results``. The commands ``tables``, ``figures`` and ``page`` read these files. The installed
package does not contain this folder, and the code here imports public names of the package only.
"""
